#include "muster/base/host_memory.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "muster/base/file.h"
#include "muster/base/text.h"

#include "tests/support/folder.h"

namespace muster {
namespace {

constexpr uint64_t kGib = uint64_t{1} << 30;

/// A machine with 16 GiB, of which 8 are available, and no limits.
class HostMemory : public ::testing::Test {
 protected:
  HostMemory() {
    file("proc/meminfo",
         "MemTotal:       16777216 kB\nMemFree:   12 kB\nMemAvailable:    8388608 kB\n");
    limit_addresses("unlimited");
    file("proc/self/statm",
         concat(kGib / static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)), " 7 5\n"));
  }

  void file(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((root() / name).parent_path());
    write_file_atomic(root() / name, text);
  }
  void limit_addresses(const std::string& limit) const {
    file("proc/self/limits",
         concat("Limit                     Soft Limit           Hard Limit           Units     \n"
                "Max cpu time              unlimited            unlimited            seconds   \n"
                "Max address space         ",
                limit,
                "           unlimited            bytes     \n"));
  }
  void group(uint64_t limit, uint64_t used, uint64_t cache) const {
    file("proc/self/cgroup", "0::/job\n");
    file("sys/fs/cgroup/job/memory.max", concat(limit, '\n'));
    file("sys/fs/cgroup/job/memory.current", concat(used, '\n'));
    file("sys/fs/cgroup/job/memory.stat", concat("inactive_file ", cache, '\n'));
  }
  const std::filesystem::path& root() const { return folder_.path(); }

 private:
  test::Folder folder_;
};

TEST_F(HostMemory, IsWhatTheMachineHasAvailable) {
  EXPECT_EQ(free_host_memory(root()), 8 * kGib);
  EXPECT_EQ(limited_addresses(root()), std::nullopt);
}

TEST_F(HostMemory, IsWhatTheControlGroupLeavesWhereThatIsLess) {
  group(4 * kGib, 3 * kGib, kGib / 2);
  EXPECT_EQ(free_host_memory(root()), 3 * kGib / 2);
  group(4 * kGib, 5 * kGib, 0);
  EXPECT_EQ(free_host_memory(root()), 0u);
  group(64 * kGib, 3 * kGib, 0);
  EXPECT_EQ(free_host_memory(root()), 8 * kGib);
}

TEST_F(HostMemory, IsWhatTheLimitOfAddressesLeavesWhereThatIsLess) {
  limit_addresses(concat(3 * kGib));
  EXPECT_EQ(free_host_memory(root()), 2 * kGib);
  group(4 * kGib, 3 * kGib, 0);
  EXPECT_EQ(free_host_memory(root()), kGib);
  limit_addresses(concat(kGib / 2));
  EXPECT_EQ(free_host_memory(root()), 0u);
  limit_addresses(concat(64 * kGib));
  EXPECT_EQ(free_host_memory(root()), kGib);
}

TEST_F(HostMemory, IsNotKnownWhereNothingTells) {
  const test::Folder empty;
  EXPECT_EQ(free_host_memory(empty.path()), std::nullopt);
}

TEST_F(HostMemory, IsReadByItsKey) {
  const std::string text = "MemTotal:       16 kB\nMemAvailable: x kB\nSwapFree:\nHugetlb: 3 kB";
  EXPECT_EQ(meminfo_bytes(text, "MemTotal:"), 16u << 10);
  EXPECT_EQ(meminfo_bytes(text, "Hugetlb:"), 3u << 10);
  for (const char* none : {"MemAvailable:", "SwapFree:", "MemFree:"})
    EXPECT_EQ(meminfo_bytes(text, none), std::nullopt) << none;
}

void check_own_limit() {
  const auto before = limited_addresses();
  rlimit limit{};
  ::getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, rlim_t{1} << 45);
  ::setrlimit(RLIMIT_AS, &limit);
  const auto after = limited_addresses();
  ::_exit(after && after->limit_bytes == limit.rlim_cur && after->used_bytes > 0 &&
                  (!before || before->used_bytes > 0)
              ? 0
              : 1);
}

TEST(OwnAddresses, AreLimitedAsTheKernelSays) {
  EXPECT_EXIT(check_own_limit(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace muster
