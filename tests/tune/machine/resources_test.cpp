// What the machine has, and how it is given out.
#include "muster/tune/machine/resources.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include "muster/base/cgroup.h"
#include "muster/tune/machine/machine.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/support/paths.h"

namespace muster::tune {
namespace {

using test::refusal_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
constexpr uint64_t kGiB = 1 << 30;

Machine machine_with(size_t gpus, double cpu = 64) {
  Machine machine{.cpu = cpu, .memory_bytes = 16 * kGiB};
  for (size_t i = 0; i < gpus; ++i) machine.gpus.push_back("GPU-" + std::to_string(i));
  return machine;
}

int how_many(ResourcePool& pool) {
  int count = 0;
  while (pool.try_acquire()) ++count;
  return count;
}

// Ray's example: 8 devices of 1.0 hold 6 each of 0.15; a common pool would hold 53.
TEST(ResourcePoolTest, PacksSharesPerDevice) {
  ResourcePool pool(machine_with(8), {.cpu = 0, .gpu = 0.15});
  EXPECT_EQ(how_many(pool), 48);
  EXPECT_EQ(pool.why_not(), "needs 0.15 gpu, at most 0.1 free on one of 8");
  EXPECT_EQ(pool.used(), "gpu 7.2/8");
}

TEST(ResourcePoolTest, TenthsAddUpToAWhole) {
  ResourcePool pool(machine_with(1), {.cpu = 0.1, .gpu = 0.1});
  EXPECT_EQ(how_many(pool), 10);
  ResourcePool cores(machine_with(0, 0.3), {.cpu = 0.1});
  EXPECT_EQ(how_many(cores), 3);
}

TEST(ResourcePoolTest, FirstFitPerDeviceAndBack) {
  ResourcePool pool(machine_with(2), {.cpu = 1, .gpu = 0.5});
  const auto a = pool.try_acquire(), b = pool.try_acquire(), c = pool.try_acquire(),
             d = pool.try_acquire();
  EXPECT_THAT(a->gpus, ElementsAre(0));
  EXPECT_THAT(b->gpus, ElementsAre(0));
  EXPECT_THAT(c->gpus, ElementsAre(1));
  EXPECT_FALSE(pool.try_acquire());
  pool.give_back(*b);
  EXPECT_EQ(pool.why_not(), "");
  EXPECT_EQ(pool.used(), "cpu 3/64, gpu 1.5/2");
  EXPECT_THAT(pool.try_acquire()->gpus, ElementsAre(0));
}

TEST(ResourcePoolTest, WholeDevicesAreFreeOnes) {
  ResourcePool pool(machine_with(5), {.cpu = 1, .gpu = 2});
  const auto a = pool.try_acquire();
  EXPECT_THAT(a->gpus, ElementsAre(0, 1));
  EXPECT_THAT(pool.try_acquire()->gpus, ElementsAre(2, 3));
  EXPECT_FALSE(pool.try_acquire());
  EXPECT_EQ(pool.why_not(), "needs 2 gpu, 1 free of 5");
  pool.give_back(*a);
  EXPECT_THAT(pool.try_acquire()->gpus, ElementsAre(0, 1));
}

TEST(ResourcePool, GivesOutWhatTheStudySaysTheMachineHas) {
  StudySpec spec;
  spec.machine_custom = {{"fpga", 2}};
  ResourcePool pool(machine_of(spec), {.cpu = 0.001, .custom = {{"fpga", 1}}});
  EXPECT_TRUE(pool.try_acquire());
  EXPECT_TRUE(pool.try_acquire());
  EXPECT_FALSE(pool.try_acquire());
  EXPECT_THAT(pool.why_not(), HasSubstr("fpga"));
}

TEST(ResourcePoolTest, CountsMemoryAndWhatUsersName) {
  Machine machine = machine_with(0);
  machine.custom["license"] = 3;
  ResourcePool pool(machine, {.cpu = 1, .memory_bytes = 4 * kGiB, .custom = {{"license", 1}}});
  EXPECT_EQ(how_many(pool), 3);
  EXPECT_EQ(pool.why_not(), "needs 1 license, 0 free of 3");
  EXPECT_EQ(pool.used(), "cpu 3/64, memory 12 GiB/16 GiB, license 3/3");
  ResourcePool memory(machine, {.cpu = 1, .memory_bytes = 5 * kGiB});
  EXPECT_EQ(how_many(memory), 3);
  EXPECT_EQ(memory.why_not(), "needs 5.0 GiB memory, 1.0 GiB free of 16 GiB");
}

TEST(ResourcePoolTest, SaysWhatCanNeverBeHad) {
  const auto why = [](const Resources& resources) {
    return refusal_of([&] { ResourcePool(machine_with(1, 2), resources); });
  };
  EXPECT_THAT(why({.cpu = 4}), HasSubstr("resources_per_trial: cpu 4: this machine has 2"));
  EXPECT_THAT(why({.gpu = 2}), HasSubstr("gpu 2: this machine has 1"));
  EXPECT_THAT(why({.gpu = 1.5}), HasSubstr("below 1"));
  EXPECT_THAT(why({.cpu = -1}), HasSubstr("an amount is from 0 to"));
  EXPECT_THAT(why({.cpu = std::nan("")}), HasSubstr("an amount is from 0 to"));
  EXPECT_THAT(why({.cpu = 1e-4}), HasSubstr("thousandths"));
  EXPECT_THAT(why({.memory_bytes = 17 * kGiB}),
              HasSubstr("memory 17 GiB: this machine has 16 GiB"));
  EXPECT_THAT(why({.custom = {{"license", 1}}}), HasSubstr("license 1: this machine has 0"));
}

/// A machine in files.
class Files {
 public:
  void write(const std::string& path, const std::string& text) const {
    const auto file = root() / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::filesystem::path root() const { return folder_.path(); }

 private:
  test::Folder folder_;
};

TEST(ControlGroup, Version2TakesTheSmallestLimitOnTheWayUp) {
  const Files files;
  files.write("proc/self/cgroup", "0::/user/job\n");
  files.write("sys/fs/cgroup/user/job/cpu.max", "max 100000\n");
  files.write("sys/fs/cgroup/user/cpu.max", "150000 100000\n");
  files.write("sys/fs/cgroup/user/job/memory.max", "4294967296\n");
  files.write("sys/fs/cgroup/user/memory.max", "max\n");
  files.write("sys/fs/cgroup/user/job/memory.events",
              "low 0\noom 3\noom_kill 2\noom_group_kill 1\n");
  EXPECT_EQ(cgroup_cpus(files.root()), 1.5);
  EXPECT_EQ(cgroup_memory(files.root()), 4 * kGiB);
  EXPECT_EQ(oom_kills(files.root()), 2);
}

TEST(ControlGroup, Version1HasAFolderPerController) {
  const Files files;
  files.write("proc/self/cgroup", "4:memory:/box\n2:cpu,cpuacct:/box\n0::/\n");
  files.write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "50000\n");
  files.write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n");
  files.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  files.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  files.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  files.write("sys/fs/cgroup/memory/box/memory.oom_control",
              "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n");
  EXPECT_EQ(cgroup_cpus(files.root()), 0.5);
  EXPECT_EQ(cgroup_memory(files.root()), std::nullopt) << "2^63 is no limit";
  EXPECT_EQ(oom_kills(files.root()), 5);
}

TEST(ControlGroup, InAContainerTheMountIsTheGroupItself) {
  const Files files;
  files.write("proc/self/cgroup", "0::/docker/abc\n");
  files.write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(cgroup_cpus(files.root()), 2.0);
}

TEST(ControlGroup, WithoutOneTheKernelCountsForTheWholeMachine) {
  const Files files;
  EXPECT_EQ(oom_kills(files.root()), std::nullopt);
  files.write("proc/vmstat", "nr_free_pages 12\noom_kill 4\n");
  EXPECT_EQ(oom_kills(files.root()), 4);
  EXPECT_EQ(cgroup_cpus(files.root()), std::nullopt);
}

TEST(ThisMachine, HasTheSmallerOfAffinityAndQuota) {
  const Files files;
  files.write("proc/self/cgroup", "0::/\n");
  files.write("proc/meminfo", "MemTotal:       16777216 kB\nMemFree:   12 kB\n");
  const MachineSources sources{.root = files.root(), .nvml = "no-such-library.so"};
  cpu_set_t set;
  ASSERT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
  EXPECT_EQ(machine_from(sources).cpu, CPU_COUNT(&set));
  EXPECT_EQ(machine_from(sources).memory_bytes, 16 * kGiB);
  EXPECT_THAT(machine_from(sources).gpus, IsEmpty());
  files.write("sys/fs/cgroup/cpu.max", "25000 100000\n");
  files.write("sys/fs/cgroup/memory.max", "1073741824\n");
  EXPECT_EQ(machine_from(sources).cpu, 0.25);
  EXPECT_EQ(machine_from(sources).memory_bytes, kGiB);
}

TEST(ThisMachine, AsksTheDriverForItsDevices) {
  ::setenv("FAKE_NVML", "GPU-aa,GPU-ab,GPU-c", 1);
  MachineSources sources{.nvml = test::program_path("../lib/libmuster_fake_nvml.so"),
                         .environment = [](std::string_view) { return std::nullopt; }};
  EXPECT_THAT(machine_from(sources).gpus, ElementsAre("GPU-aa", "GPU-ab", "GPU-c"));
  sources.environment = [](std::string_view name) {
    return name == "CUDA_VISIBLE_DEVICES" ? std::optional<std::string>("2,0") : std::nullopt;
  };
  EXPECT_THAT(machine_from(sources).gpus, ElementsAre("GPU-c", "GPU-aa"));
  ::setenv("FAKE_NVML", "fail", 1);
  EXPECT_THAT(machine_from(sources).gpus, IsEmpty());
  ::unsetenv("FAKE_NVML");
}

TEST(VisibleDevices, AreThoseThatTheRuntimeShows) {
  const std::vector<std::string> all{"GPU-aa", "GPU-ab", "GPU-c"};
  EXPECT_THAT(visible_devices(all, "1"), ElementsAre("GPU-ab"));
  EXPECT_THAT(visible_devices(all, " GPU-c , GPU-ab"), ElementsAre("GPU-c", "GPU-ab"));
  EXPECT_THAT(visible_devices(all, "GPU-a"), ElementsAre("GPU-aa")) << "the first that begins so";
  EXPECT_THAT(visible_devices(all, ""), IsEmpty());
  EXPECT_THAT(visible_devices(all, "-1,0"), IsEmpty());
  EXPECT_THAT(visible_devices(all, "0,7,1"), ElementsAre("GPU-aa"))
      << "what is behind a wrong one is hidden";
  EXPECT_THAT(visible_devices(all, "0,0"), IsEmpty());
  EXPECT_THAT(visible_devices(all, "MIG-1"), ElementsAre("MIG-1"));
}

}  // namespace
}  // namespace muster::tune
