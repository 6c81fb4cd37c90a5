// The checks of the environment, on made-up machines.
#include <algorithm>
#include <filesystem>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/diagnose/surroundings/check.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"

namespace muster::diagnose {
namespace {

using ::testing::HasSubstr;

namespace fs = std::filesystem;

constexpr uint64_t kMiB = 1 << 20, kGiB = 1 << 30;

/// A machine of files, with answers for what no file says.
class MadeUpMachine {
 public:
  MadeUpMachine() {
    around.root = folder_.path();
    around.output = folder_.path();
    around.environment = [this](std::string_view name) -> std::optional<std::string> {
      const auto found = variables.find(std::string(name));
      return found == variables.end() ? std::nullopt : std::optional(found->second);
    };
    around.space = [this](const fs::path&) { return space; };
    around.sync = [this](const fs::path&, std::string& why) {
      why = "Read-only file system (EROFS)";
      return sync_s;
    };
    around.resolve = [this](const std::string&) { return addresses; };
    around.interfaces = [] { return std::vector<std::string>{"127.0.0.1", "10.0.0.7"}; };
    around.loopback = [] { return std::optional<std::string>(); };
    around.libraries = [this](const fs::path&) { return ldd; };
  }

  void file(const std::string& absolute, const std::string& text) {
    const fs::path path = folder_.path() / fs::path(absolute).relative_path();
    fs::create_directories(path.parent_path());
    write_file_atomic(path, text);
  }

  CheckResult result(const std::string& name) {
    const auto results = run_checks(around, name.substr(0, name.find('.')));
    const auto found = std::ranges::find(results, name, &CheckResult::name);
    if (found != results.end()) return *found;
    ADD_FAILURE() << "no " << name;
    return {};
  }
  Verdict verdict(const std::string& name) { return result(name).verdict; }

  Surroundings around;
  std::map<std::string, std::string> variables;
  std::optional<Space> space =
      Space{.total_bytes = 64 * kGiB, .free_bytes = 32 * kGiB, .free_files = 0};
  std::optional<double> sync_s = 0.01;
  std::vector<std::string> addresses = {"10.0.0.7"};
  std::optional<std::string> ldd;

 private:
  test::Folder folder_;
};

TEST(Checks, ShmOfAContainersDefaultIsTooSmall) {
  MadeUpMachine machine;
  machine.file("/proc/self/mounts", "shm /dev/shm tmpfs rw,size=65536k 0 0\n");
  EXPECT_EQ(machine.verdict("shm"), Verdict::kOk);
  machine.space = Space{.total_bytes = 64 * kMiB, .free_bytes = 60 * kMiB, .free_files = 0};
  EXPECT_EQ(machine.verdict("shm"), Verdict::kWarn);
  EXPECT_THAT(machine.result("shm").hint, HasSubstr("--shm-size"));
  machine.space->free_bytes = kMiB;
  EXPECT_EQ(machine.verdict("shm"), Verdict::kFail);
  machine.space = std::nullopt;
  EXPECT_EQ(machine.verdict("shm"), Verdict::kFail);
}

TEST(Checks, LimitsAreReadFromTheKernelsTable) {
  MadeUpMachine machine;
  const auto limits =
      [](const std::string& files, const std::string& locked, const std::string& as) {
        return "Limit                     Soft Limit           Hard Limit           Units     \n"
               "Max core file size        0                    unlimited            bytes     \n"
               "Max processes             63432                63432                processes \n"
               "Max open files            " +
               files +
               "                 524288               files     \n"
               "Max locked memory         " +
               locked +
               "           8388608              bytes     \n"
               "Max address space         " +
               as + "            unlimited            bytes     \n";
      };
  machine.file("/proc/self/limits", limits("65536", "8388608", "unlimited"));
  for (const char* name : {"limits.nofile", "limits.memlock", "limits.nproc", "limits.as"})
    EXPECT_EQ(machine.verdict(name), Verdict::kOk) << name;
  machine.file("/sys/class/infiniband/mlx5_0/name", "");
  EXPECT_EQ(machine.verdict("limits.memlock"), Verdict::kWarn) << "RDMA must lock memory";
  machine.file("/proc/self/limits", limits("1024", "unlimited", "4294967296"));
  EXPECT_EQ(machine.verdict("limits.nofile"), Verdict::kWarn);
  EXPECT_EQ(machine.verdict("limits.memlock"), Verdict::kOk);
  EXPECT_EQ(machine.verdict("limits.as"), Verdict::kWarn);
  machine.file("/proc/self/limits", limits("64", "unlimited", "unlimited"));
  EXPECT_EQ(machine.verdict("limits.nofile"), Verdict::kFail);
}

TEST(Checks, MemoryKnowsControlGroupsOfBothVersions) {
  MadeUpMachine machine;
  machine.file("/proc/meminfo",
               "MemTotal:       33554432 kB\nMemAvailable:   16777216 kB\nSwapTotal: 1024 "
               "kB\nSwapFree: 0 kB\n");
  machine.file("/proc/sys/vm/overcommit_memory", "2\n");
  machine.file("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  EXPECT_EQ(machine.verdict("memory"), Verdict::kOk);
  EXPECT_EQ(machine.verdict("memory.swap"), Verdict::kWarn);
  EXPECT_EQ(machine.verdict("memory.overcommit"), Verdict::kWarn);
  EXPECT_EQ(machine.result("memory.thp").value, "madvise");
  machine.file("/proc/self/cgroup", "0::/job\n");
  machine.file("/sys/fs/cgroup/job/memory.max", "1073741824\n");
  machine.file("/sys/fs/cgroup/job/memory.events", "oom 3\noom_kill 2\n");
  EXPECT_EQ(machine.verdict("memory"), Verdict::kWarn);
  EXPECT_THAT(machine.result("memory").value, HasSubstr("allows 1.0 GiB"));
  EXPECT_EQ(machine.verdict("memory.oom_kill"), Verdict::kWarn);
  machine.file("/proc/self/cgroup", "4:memory:/docker/1\n");
  machine.file("/sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "536870912\n");
  EXPECT_THAT(machine.result("memory").value, HasSubstr("allows 512 MiB"));
}

TEST(Checks, ThreadsAreComparedWithTheCoresThatMayBeUsed) {
  MadeUpMachine machine;
  machine.file("/proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-15,32\n");
  EXPECT_THAT(machine.result("cpu").value, HasSubstr("17 cores"));
  EXPECT_EQ(machine.verdict("cpu.threads"), Verdict::kOk) << "no limit but the cores";
  machine.file("/proc/self/cgroup", "0::/job\n");
  machine.file("/sys/fs/cgroup/job/cpu.max", "200000 100000\n");
  EXPECT_EQ(machine.verdict("cpu.threads"), Verdict::kWarn);
  EXPECT_THAT(machine.result("cpu.threads").hint, HasSubstr("OMP_NUM_THREADS=2"));
  machine.variables["OMP_NUM_THREADS"] = "2";
  EXPECT_EQ(machine.verdict("cpu.threads"), Verdict::kOk);
  machine.variables["OMP_NUM_THREADS"] = "8";
  EXPECT_EQ(machine.verdict("cpu.threads"), Verdict::kWarn);
  machine.variables["OMP_NUM_THREADS"] = "many";
  EXPECT_EQ(machine.verdict("cpu.threads"), Verdict::kFail);
}

TEST(Checks, DriverAndLibraryAreOfOneVersion) {
  MadeUpMachine machine;
  EXPECT_EQ(machine.verdict("driver"), Verdict::kOk) << "a machine without a device";
  machine.file(
      "/proc/driver/nvidia/version",
      "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n"
      "GCC version:  gcc version 12.2.0\n");
  machine.file("/dev/nvidia0", "");
  machine.file("/dev/nvidiactl", "");
  EXPECT_EQ(machine.verdict("driver"), Verdict::kFail) << "no libcuda";
  machine.file("/usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15", "");
  machine.file("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.550.54.15", "");
  EXPECT_EQ(machine.verdict("driver"), Verdict::kOk);
  EXPECT_EQ(machine.verdict("driver.devices"), Verdict::kFail);
  EXPECT_THAT(machine.result("driver.devices").value, HasSubstr("no /dev/nvidia-uvm"));
  machine.file("/dev/nvidia-uvm", "");
  EXPECT_EQ(machine.verdict("driver.devices"), Verdict::kOk);
  machine.file("/dev/nvidia-nvswitchctl", "");
  EXPECT_EQ(machine.verdict("driver.fabric"), Verdict::kWarn);
  machine.file("/proc/4711/comm", "nv-fabricmanage\n");
  EXPECT_EQ(machine.verdict("driver.fabric"), Verdict::kOk);
  machine.file(
      "/proc/driver/nvidia/version",
      "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.35.03  Release Build\n");
  EXPECT_EQ(machine.verdict("driver"), Verdict::kFail) << "upgraded, and not loaded again";
}

TEST(Checks, VisibleDevicesAreOnesThatThereAre) {
  MadeUpMachine machine;
  machine.file("/dev/nvidia0", "");
  machine.file("/dev/nvidia1", "");
  const auto verdict_of = [&](const char* list) {
    machine.variables["CUDA_VISIBLE_DEVICES"] = list;
    return machine.verdict("visible-devices");
  };
  EXPECT_EQ(machine.verdict("visible-devices"), Verdict::kOk);
  EXPECT_EQ(verdict_of(""), Verdict::kWarn);
  EXPECT_EQ(verdict_of("2"), Verdict::kFail);
  EXPECT_EQ(verdict_of("0,0"), Verdict::kFail);
  EXPECT_EQ(verdict_of("-1"), Verdict::kFail);
  EXPECT_EQ(verdict_of("cuda:0"), Verdict::kFail);
  EXPECT_EQ(verdict_of("GPU-3f,MIG-1a"), Verdict::kOk);
  EXPECT_EQ(verdict_of("0,1"), Verdict::kWarn) << "numbered by speed";
  machine.variables["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";
  EXPECT_EQ(verdict_of("0,1"), Verdict::kOk);
}

TEST(Checks, RanksNeedTheHostsNameAndAFreePort) {
  MadeUpMachine machine;
  machine.file("/proc/sys/kernel/hostname", "node7\n");
  EXPECT_EQ(machine.verdict("network.hostname"), Verdict::kOk);
  machine.addresses = {"127.0.1.1"};
  EXPECT_EQ(machine.verdict("network.hostname"), Verdict::kWarn);
  machine.addresses = {"192.168.9.9"};
  EXPECT_EQ(machine.verdict("network.hostname"), Verdict::kFail) << "no interface has it";
  machine.addresses = {};
  EXPECT_EQ(machine.verdict("network.hostname"), Verdict::kFail);
  EXPECT_EQ(machine.verdict("network.port"), Verdict::kOk);
  machine.file("/proc/net/tcp",
               "  sl  local_address rem_address   st tx_queue rx_queue\n"
               "   0: 0100007F:733C 00000000:0000 0A 00000000:00000000\n");  // 29500 in hexadecimal
  EXPECT_EQ(machine.verdict("network.port"), Verdict::kWarn);
  machine.variables["MASTER_PORT"] = "29501";
  EXPECT_EQ(machine.verdict("network.port"), Verdict::kOk);
  machine.variables["MASTER_PORT"] = "http";
  EXPECT_EQ(machine.verdict("network.port"), Verdict::kFail);
  EXPECT_EQ(machine.verdict("network.loopback"), Verdict::kOk);
}

TEST(Checks, TheOutputFolderHasRoomAndIsNotSlow) {
  MadeUpMachine machine;
  EXPECT_EQ(machine.verdict("disk"), Verdict::kOk);
  EXPECT_EQ(machine.verdict("disk.sync"), Verdict::kOk);
  machine.space->free_bytes = 5 * kGiB;
  EXPECT_EQ(machine.verdict("disk"), Verdict::kWarn);
  machine.space->free_bytes = 100 * kMiB;
  EXPECT_EQ(machine.verdict("disk"), Verdict::kFail);
  machine.sync_s = 2;
  EXPECT_EQ(machine.verdict("disk.sync"), Verdict::kWarn);
  machine.sync_s = std::nullopt;
  EXPECT_EQ(machine.verdict("disk.sync"), Verdict::kFail);
  EXPECT_THAT(machine.result("disk.sync").value, HasSubstr("EROFS"));
}

TEST(Checks, TheLoaderFindsOneLibTorch) {
  MadeUpMachine machine;
  EXPECT_EQ(machine.verdict("libtorch.path"), Verdict::kOk);
  machine.file("/opt/a/lib/libtorch_cpu.so", "");
  machine.file("/opt/a/build-version", "2.5.1+cpu\n");
  machine.file("/opt/a/lib/libc10.so",
               std::string("\0_ZN3c105ErrorC2ENS_14SourceLocationESs\0", 41));
  machine.file("/opt/b/torch/lib/libtorch_cpu.so", "");
  machine.file("/opt/b/torch/version.py", "__version__ = '2.15.0+cu130'\n");
  machine.variables["LD_LIBRARY_PATH"] = "/nowhere:/opt/a/lib:/opt/a/lib/";
  EXPECT_EQ(machine.verdict("libtorch.path"), Verdict::kOk);
  EXPECT_THAT(machine.result("libtorch.path").value, HasSubstr("(2.5.1+cpu), old ABI"));
  machine.variables["LD_LIBRARY_PATH"] = "/opt/a/lib:/opt/b/torch/lib";
  EXPECT_EQ(machine.verdict("libtorch.path"), Verdict::kWarn);
  EXPECT_THAT(machine.result("libtorch.path").value, HasSubstr("2.15.0+cu130"));
}

TEST(Checks, AProgramsLibrariesAreFoundInOneFolder) {
  MadeUpMachine machine;
  machine.around.program = "./train";
  EXPECT_EQ(machine.verdict("libtorch.program"), Verdict::kWarn) << "no program of this machine";
  machine.ldd =
      "\tlibtorch_cpu.so => /opt/a/lib/libtorch_cpu.so (0x1)\n\tlibc10.so => /opt/a/lib/libc10.so "
      "(0x2)\n";
  EXPECT_EQ(machine.verdict("libtorch.program"), Verdict::kOk);
  machine.ldd = *machine.ldd + "\tlibtorch_cuda.so => /opt/b/libtorch_cuda.so (0x3)\n";
  EXPECT_EQ(machine.verdict("libtorch.program"), Verdict::kFail);
  machine.ldd = "\tlibtorch_cpu.so => not found\n";
  EXPECT_THAT(machine.result("libtorch.program").value, HasSubstr("lacks libtorch_cpu.so"));
}

TEST(Checks, VariablesThatSlowARunDownAreNamed) {
  MadeUpMachine machine;
  EXPECT_EQ(machine.verdict("variables"), Verdict::kOk);
  machine.variables["CUDA_LAUNCH_BLOCKING"] = "1";
  EXPECT_EQ(machine.verdict("variables"), Verdict::kWarn);
}

TEST(Checks, AllRunOnThisMachineAndAnUnknownOneIsRefused) {
  Surroundings here;
  test::Folder folder;
  here.output = folder.path();
  EXPECT_GE(run_checks(here).size(), 15U);
  EXPECT_TRUE(fs::is_empty(folder.path())) << "nothing is left behind";
  EXPECT_THAT(test::refusal_of([&] { run_checks(here, "smh"); }), HasSubstr("unknown check"));
}

TEST(LoadedLibraries, AreTheLoadersOwnAnswer) {
  const auto list = loaded_libraries("/proc/self/exe");
  ASSERT_TRUE(list.has_value());
  EXPECT_THAT(*list, HasSubstr("libc.so.6 => "));
  EXPECT_FALSE(loaded_libraries("/etc/passwd").has_value());
  EXPECT_FALSE(loaded_libraries("/no/such/file").has_value());
}

}  // namespace
}  // namespace muster::diagnose
