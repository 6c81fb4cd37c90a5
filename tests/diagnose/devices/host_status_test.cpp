// Memory, pressure and processes, on made-up machines.
#include "muster/diagnose/devices/host_status.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <unistd.h>

#include "muster/base/file.h"
#include "muster/base/text.h"

#include "tests/support/folder.h"

namespace muster::diagnose {
namespace {

using ::testing::DoubleEq;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::SizeIs;

namespace fs = std::filesystem;

constexpr uint64_t kGiB = 1 << 30;

class HostOfFiles : public ::testing::Test {
 protected:
  HostOfFiles() {
    around_.root = folder_.path();
    file("/proc/meminfo",
         "MemTotal: 16777216 kB\nMemFree: 1 kB\nMemAvailable: 4194304 kB\n"
         "SwapTotal: 2097152 kB\nSwapFree: 1048576 kB\n");
  }

  void file(const std::string& absolute, const std::string& text) {
    const fs::path path = folder_.path() / fs::path(absolute).relative_path();
    fs::create_directories(path.parent_path());
    write_file_atomic(path, text);
  }

  void process(int64_t pid, int64_t resident_kib, const std::string& cmdline, char state = 'S') {
    const std::string folder = concat("/proc/", pid);
    std::string stat = concat(pid, " (a ) b) ", state);
    for (int field = 4; field < 22; ++field) stat += " 0";
    file(folder + "/stat", concat(stat, " ", 1000 + pid, " 0 0\n"));
    file(folder + "/status",
         concat("Name:\tprog\nUid:\t4294900\t4294900\t0\t0\nVmHWM:\t",
                2 * resident_kib,
                " kB\nVmRSS:\t",
                resident_kib,
                " kB\nVmSwap:\t7 kB\n"));
    file(folder + "/statm", concat("9 ", resident_kib * 1024 / ::sysconf(_SC_PAGESIZE), " 0\n"));
    file(folder + "/cmdline", cmdline);
    file(folder + "/cgroup", "0::/jobs/7\n");
  }

  Surroundings around_;

 private:
  test::Folder folder_;
};

TEST_F(HostOfFiles, TellsMemoryAndSwap) {
  const HostStatus host = host_status(around_);
  EXPECT_EQ(host.total_bytes, 16 * kGiB);
  EXPECT_EQ(host.available_bytes, 4 * kGiB);
  EXPECT_EQ(host.swap_total_bytes, 2 * kGiB);
  EXPECT_EQ(host.swap_used_bytes, kGiB);
  EXPECT_THAT(host.memory_share(), Optional(DoubleEq(0.75)));
  EXPECT_EQ(host.cgroup, std::nullopt);
  EXPECT_EQ(host.memory_pressure, std::nullopt);
}

TEST_F(HostOfFiles, TheShareIsTheGroupsWhereItHasALimitWithoutTheFilesThatTheKernelWouldDrop) {
  file("/proc/self/cgroup", "0::/a/b\n");
  file("/sys/fs/cgroup/a/b/memory.current", "3221225472\n");
  file("/sys/fs/cgroup/a/b/memory.max", "max\n");
  file("/sys/fs/cgroup/a/memory.current", "5368709120\n");
  file("/sys/fs/cgroup/a/memory.max", "8589934592\n");
  file("/sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 1073741824\n");
  const HostStatus host = host_status(around_);
  ASSERT_TRUE(host.cgroup);
  EXPECT_EQ(host.cgroup->group, "/a") << "an ancestor's limit counts, so its use does";
  EXPECT_EQ(host.cgroup->used_bytes, 5 * kGiB);
  EXPECT_EQ(host.cgroup->cache_bytes, kGiB);
  EXPECT_THAT(host.cgroup->limit_bytes, Optional(8 * kGiB));
  EXPECT_THAT(host.memory_share(), Optional(DoubleEq(0.5)));
}

TEST_F(HostOfFiles, AGroupOfVersionOneIsReadAsWell) {
  file("/proc/self/cgroup", "4:memory:/c\n0::/\n");
  file("/sys/fs/cgroup/memory/c/memory.usage_in_bytes", "2147483648\n");
  file("/sys/fs/cgroup/memory/c/memory.limit_in_bytes", "4294967296\n");
  file("/sys/fs/cgroup/memory/memory.usage_in_bytes", "9147483648\n");
  file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  const HostStatus host = host_status(around_);
  ASSERT_TRUE(host.cgroup);
  EXPECT_EQ(host.cgroup->group, "/c");
  EXPECT_THAT(host.memory_share(), Optional(DoubleEq(0.5)));
}

TEST_F(HostOfFiles, PressureIsTheGroupsElseTheMachines) {
  const std::string machine =
      "some avg10=1.50 avg60=2.00 avg300=3.00 total=9\n"
      "full avg10=0.50 avg60=0.25 avg300=0.00 total=5\n";
  file("/proc/pressure/memory", machine);
  HostStatus host = host_status(around_);
  ASSERT_TRUE(host.memory_pressure);
  EXPECT_FALSE(host.pressure_is_group);
  EXPECT_EQ(host.memory_pressure->some_10s, 1.5);
  EXPECT_THAT(host.memory_pressure->full_60s, Optional(0.25));
  EXPECT_EQ(host.cpu_pressure, std::nullopt);
  file("/proc/self/cgroup", "0::/a\n");
  file("/sys/fs/cgroup/memory.pressure", "some avg10=9.00 avg60=0.00 avg300=0.00 total=9\n");
  EXPECT_FALSE(host_status(around_).pressure_is_group) << "the top's is the machine's";
  file("/sys/fs/cgroup/a/cgroup.type", "domain\n");
  file("/sys/fs/cgroup/a/memory.pressure", "some avg10=7.00 avg60=0.00 avg300=0.00 total=9\n");
  host = host_status(around_);
  EXPECT_TRUE(host.pressure_is_group);
  EXPECT_EQ(host.memory_pressure->some_10s, 7);
  EXPECT_EQ(host.memory_pressure->full_10s, std::nullopt);
}

TEST(PressureText, IsNothingIfItIsSomethingElse) {
  for (const char* text :
       {"", "some", "full avg10=1 avg60=1 avg300=1", "some avg10=x avg60=1 avg300=1"})
    EXPECT_EQ(parse_pressure(text), std::nullopt) << text;
}

TEST_F(HostOfFiles, TicksOfTheProcessorsAreBusyOrIdle) {
  file("/proc/stat", "cpu  10 1 5 80 4 1 2 3 50 0\ncpu0 1 1 1 1\n");
  const HostStatus host = host_status(around_);
  EXPECT_EQ(host.cpu_ticks, 10U + 1 + 5 + 80 + 4 + 1 + 2 + 3) << "guests are users";
  EXPECT_EQ(host.cpu_busy_ticks, 10U + 1 + 5 + 1 + 2 + 3);
}

TEST_F(HostOfFiles, AProcessIsToldByItsFiles) {
  using namespace std::string_literals;
  process(12, 4096, "./train\0--lr\0 0.1\0"s);
  const auto facts = process_facts(around_, 12);
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->command, "./train --lr  0.1");
  EXPECT_EQ(facts->uid, 4294900);
  EXPECT_EQ(facts->user, "4294900") << "a user without a name";
  EXPECT_EQ(facts->rss_bytes, 4096U << 10);
  EXPECT_EQ(facts->peak_bytes, 8192U << 10);
  EXPECT_EQ(facts->swap_bytes, 7U << 10);
  EXPECT_EQ(facts->started, 1012U);
  EXPECT_EQ(facts->cgroup, "/jobs/7");
  process(13, 1, "", 'Z');
  EXPECT_FALSE(process_facts(around_, 13)) << "a zombie is gone";
  process(14, 1, "");
  EXPECT_EQ(process_facts(around_, 14)->command, "[prog]");
  EXPECT_FALSE(process_facts(around_, 15));
}

TEST_F(HostOfFiles, ShowsTheLargestProcessesAndAllThatPublish) {
  for (int64_t pid = 1; pid <= 5; ++pid) process(pid, pid * 1024, concat("p", pid));
  PublishedState small, stale;
  small.process = {.pid = 1, .started = 1001};
  stale.process = {.pid = 2, .started = 7};
  const auto processes = host_processes(around_, {small, stale}, 2);
  ASSERT_THAT(processes, SizeIs(3));
  EXPECT_EQ(processes[0].facts.command, "p5");
  EXPECT_EQ(processes[1].facts.command, "p4");
  EXPECT_EQ(processes[2].facts.command, "p1") << "small, and it publishes";
  EXPECT_TRUE(processes[2].published);
  EXPECT_FALSE(processes[0].published);
}

TEST_F(HostOfFiles, NumbersAreTheHostsInTheFirstNamespaceAlone) {
  EXPECT_FALSE(has_host_pids(around_)) << "not to be told";
  file("/proc/self/ns/x", "");
  const fs::path link = around_.path("/proc/self/ns/pid");
  fs::create_symlink("pid:[4026531836]", link);
  EXPECT_TRUE(has_host_pids(around_));
  fs::remove(link);
  fs::create_symlink("pid:[4026532999]", link);
  EXPECT_FALSE(has_host_pids(around_));
}

TEST_F(HostOfFiles, AMachineOfWhichNothingIsToBeReadSaysNothing) {
  Surroundings empty;
  empty.root = around_.root / "none";
  const HostStatus host = host_status(empty);
  EXPECT_EQ(host.total_bytes, 0U);
  EXPECT_EQ(host.memory_share(), std::nullopt);
  EXPECT_THAT(host_processes(empty, {}, 10), IsEmpty());
}

}  // namespace
}  // namespace muster::diagnose
