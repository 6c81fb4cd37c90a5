// Devices as a driver tells them, a fake one.
#include "muster/diagnose/devices/machine_status.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <unistd.h>

#include "muster/base/text.h"
#include "muster/diagnose/catalogue/error_row.h"
#include "muster/diagnose/devices/device_reader.h"

#include "tests/support/fake_driver.h"

namespace muster::diagnose {
namespace {

using test::fake_device;
using test::fake_mig_device;
using test::kFakeGiB;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::SizeIs;

namespace fs = std::filesystem;

/// A machine of files beside a fake driver.
class Devices : public ::testing::Test {
 protected:
  Devices() {
    around_.root = driver_.folder() / "root";
    around_.environment = [](std::string_view) { return std::nullopt; };
    set_namespace("pid:[4026531836]");
    add_process(41, "./train --epochs 3");
  }

  void set_namespace(const std::string& text) {
    const fs::path link = around_.path("/proc/self/ns/pid");
    fs::create_directories(link.parent_path());
    fs::remove(link);
    fs::create_symlink(text, link);
  }

  void add_process(int64_t pid, const std::string& command, bool has_driver = false) {
    const fs::path folder = around_.path(concat("/proc/", pid));
    fs::create_directories(folder / "fd");
    std::string stat = concat(pid, " (a) S");
    for (int field = 4; field < 22; ++field) stat += " 0";
    write_file_atomic(folder / "stat", stat + " 5 0 0\n");
    write_file_atomic(folder / "status", "Name:\ta\nUid:\t0\t0\t0\t0\nVmRSS:\t1024 kB\n");
    write_file_atomic(folder / "cmdline", command);
    if (has_driver) fs::create_symlink("/dev/nvidia0", folder / "fd" / "3");
  }

  MachineReaderOptions options() {
    return {.surroundings = around_,
            .nvml = test::FakeDriver::library(),
            .published = driver_.folder() / "status",
            .processes = 0};
  }

  MachineStatus read(std::vector<Json> devices) {
    driver_.scenario["devices"] = std::move(devices);
    driver_.write();
    return read_machine(options());
  }

  Surroundings around_;
  test::FakeDriver driver_;
};

TEST_F(Devices, AreReadWithAllThatTheDriverTells) {
  const MachineStatus status =
      read({fake_device(0, {{{"pid", 41}, {"bytes", 29 * kFakeGiB}}}), fake_device(1)});
  EXPECT_EQ(status.driver.kind, DriverStatus::kReady);
  EXPECT_EQ(status.driver.version, "550.54.15");
  EXPECT_EQ(status.driver.cuda, "12.4");
  ASSERT_THAT(status.devices, SizeIs(2));
  const DeviceStatus& device = status.devices[0];
  EXPECT_EQ(device.name, "NVIDIA A100-SXM4-40GB");
  EXPECT_EQ(device.uuid, "GPU-00000000");
  EXPECT_EQ(device.bus_id, "00000000:30:00.0");
  EXPECT_EQ(device.fault, "");
  EXPECT_THAT(device.mig.value, Optional(false));
  EXPECT_THAT(device.utilization_percent.value, Optional(87.0));
  ASSERT_TRUE(device.memory.value);
  EXPECT_EQ(device.memory.value->used_bytes, 30 * kFakeGiB) << "without what the driver keeps";
  EXPECT_EQ(device.memory.value->reserved_bytes, kFakeGiB / 2);
  EXPECT_EQ(device.memory.value->free_bytes, 40 * kFakeGiB - 30 * kFakeGiB - kFakeGiB / 2);
  EXPECT_THAT(device.memory_share(), Optional(0.75));
  EXPECT_THAT(device.temperature_c.value, Optional(64.0));
  EXPECT_THAT(device.power_w.value, Optional(::testing::DoubleNear(312.4, 1e-9)));
  EXPECT_THAT(device.compute_mode.value, Optional(std::string("default")));
  ASSERT_THAT(device.processes, SizeIs(1));
  const DeviceProcess& process = device.processes[0];
  EXPECT_EQ(process.where, Whereabouts::kHere);
  EXPECT_THAT(process.memory.value, Optional(29 * kFakeGiB));
  ASSERT_TRUE(process.facts);
  EXPECT_EQ(process.facts->command, "./train --epochs 3");
  EXPECT_EQ(process.gpu_instance, std::nullopt);
  EXPECT_FALSE(status.has_foreign_pids);
  EXPECT_EQ(status.devices[1].index, 1);
}

TEST_F(Devices, WhatADeviceDoesNotSupportSaysSo) {
  const MachineStatus status =
      read({{{"name", "A"}, {"uuid", "GPU-a"}, {"total", 8}, {"used", 2}}});
  const DeviceStatus& device = status.devices.at(0);
  EXPECT_TRUE(device.memory.value);
  for (const auto* reading :
       {&device.utilization_percent, &device.temperature_c, &device.power_w}) {
    EXPECT_FALSE(reading->value);
    EXPECT_EQ(reading->why, "not supported by this device");
  }
  EXPECT_EQ(device.ecc_errors.why, "not supported by this device");
}

TEST_F(Devices, EachErrorOfAReadingHasItsWords) {
  const std::vector<std::pair<int, const char*>> known = {
      {3, "not supported by this device"},
      {4, "no permission"},
      {10, "the device does not answer in time"},
      {13, "the driver is too old"},
      {999, "Unknown Error"}};
  for (const auto& [code, words] : known) {
    Json device = fake_device(0);
    device["errors"] = {{"nvmlDeviceGetTemperature", code},
                        {"nvmlDeviceGetComputeRunningProcesses_v3", code}};
    const MachineStatus status = read({device});
    EXPECT_EQ(status.devices.at(0).temperature_c.why, words);
    EXPECT_EQ(status.devices[0].processes_why, words);
    EXPECT_EQ(status.devices[0].fault, "") << "it answers all else";
    EXPECT_TRUE(status.devices[0].power_w.value);
  }
}

TEST_F(Devices, UnderMigThereAreInstancesAndNoUtilisation) {
  const MachineStatus status = read({fake_mig_device(0, {{{"pid", 41}, {"bytes", 5}}})});
  const DeviceStatus& device = status.devices.at(0);
  EXPECT_TRUE(device.is_mig());
  EXPECT_EQ(device.utilization_percent.value, std::nullopt);
  EXPECT_EQ(device.utilization_percent.why, "not available under MIG");
  ASSERT_THAT(device.instances, SizeIs(2));
  EXPECT_EQ(device.instances[1].uuid, "MIG-0b");
  EXPECT_THAT(device.instances[1].gpu_instance, Optional(2U));
  EXPECT_EQ(device.instances[0].memory.value->used_bytes, 5 * kFakeGiB);
  ASSERT_THAT(device.processes, SizeIs(1));
  EXPECT_THAT(device.processes[0].gpu_instance, Optional(1U));
}

TEST_F(Devices, AProcessOfAnInstanceThatTheWholeDeviceListsTooIsOne) {
  Json device = fake_mig_device(0, {{{"pid", 41}, {"bytes", 5}}});
  device["processes"] = {{{"pid", 41}, {"bytes", 5}, {"gi", 1}, {"ci", 0}}};
  EXPECT_THAT(read({device}).devices.at(0).processes, SizeIs(1));
}

TEST_F(Devices, AProcessThatComputesAndDrawsIsOne) {
  const MachineStatus status =
      read({fake_device(0, {{{"pid", 41}, {"bytes", 5}, {"kind", "CG"}}})});
  ASSERT_THAT(status.devices.at(0).processes, SizeIs(1));
  EXPECT_EQ(status.devices[0].processes[0].kind, "C+G");
}

TEST_F(Devices, ManyProcessesAreAllListed) {
  Json processes = Json::array();
  for (int pid = 1; pid <= 500; ++pid) processes.push_back({{"pid", pid}, {"bytes", pid}});
  const MachineStatus status = read({fake_device(0, processes)});
  EXPECT_THAT(status.devices.at(0).processes, SizeIs(500));
}

TEST_F(Devices, WindowsTellsNoBytesOfProcesses) {
  const MachineStatus status = read({fake_device(0, {{{"pid", 41}}})});
  const DeviceProcess& process = status.devices.at(0).processes.at(0);
  EXPECT_EQ(process.memory.value, std::nullopt);
  EXPECT_THAT(process.memory.why, HasSubstr("Windows"));
}

TEST_F(Devices, AProcessThatIsNotThereIsGoneOnTheHostAndElsewhereInAContainer) {
  const std::vector<Json> devices{fake_device(0, {{{"pid", 99}, {"bytes", 5}}})};
  EXPECT_EQ(read(devices).devices.at(0).processes.at(0).where, Whereabouts::kGone);
  set_namespace("pid:[4026532888]");
  const MachineStatus status = read(devices);
  EXPECT_EQ(status.devices.at(0).processes.at(0).where, Whereabouts::kElsewhere);
  EXPECT_TRUE(status.has_foreign_pids);
}

TEST_F(Devices, InAContainerAProcessThatHappensToHaveTheNumberIsNotTakenForTheOneOfTheHost) {
  set_namespace("pid:[4026532888]");
  const std::vector<Json> devices{fake_device(0, {{{"pid", 41}, {"bytes", 5}}})};
  MachineStatus status = read(devices);
  const DeviceProcess& process = status.devices.at(0).processes.at(0);
  EXPECT_EQ(process.where, Whereabouts::kElsewhere) << "41 here has no driver open";
  EXPECT_FALSE(process.facts);
  EXPECT_THAT(status.unlisted, IsEmpty());
  add_process(42, "./other", /*has_driver=*/true);
  status = read(devices);
  ASSERT_THAT(status.unlisted, SizeIs(1)) << "it may be the one, nobody can tell";
  EXPECT_EQ(status.unlisted[0].facts.pid, 42);
  fs::create_symlink("/dev/nvidiactl", around_.path("/proc/41/fd/5"));
  status = read(devices);
  EXPECT_EQ(status.devices.at(0).processes.at(0).where, Whereabouts::kHere);
}

TEST_F(Devices, AreJoinedWithWhatTheirProcessesPublish) {
  // As a real process: what lives is told by the kernel.
  around_.root = "/";
  const auto folder = driver_.folder() / "status";
  StatePublisher publisher(folder);
  const auto publish = [&](const std::string& device) {
    ASSERT_TRUE(publisher.publish(
        {.program = "test", .rank = 3, .devices = {{.device = device, .allocated_bytes = 77}}}));
  };
  const Json processes = {{{"pid", ::getpid()}, {"bytes", 5}}};
  for (const char* name :
       {"GPU-00000001", "00000001", "0000:31:00.0", "00000000:31:00.0", "MIG-1a"}) {
    publish(name);
    const bool is_mig = std::string(name) == "MIG-1a";
    const MachineStatus status =
        read({fake_device(0, processes),
              is_mig ? fake_mig_device(1, processes) : fake_device(1, processes)});
    const DeviceProcess& there = status.devices.at(1).processes.at(0);
    ASSERT_TRUE(there.allocator) << name;
    EXPECT_EQ(there.allocator->allocated_bytes, 77U);
    EXPECT_EQ(there.published->rank, 3);
    EXPECT_FALSE(status.devices.at(0).processes.at(0).allocator) << "that is another device";
    ASSERT_THAT(status.processes, SizeIs(1)) << "those that publish, whatever was asked for";
    EXPECT_TRUE(status.processes[0].published);
  }
}

TEST_F(Devices, OneThatIsLostAtAnyMomentKeepsItsNameAndTheOthersTheirNumbers) {
  driver_.scenario["devices"] = {fake_device(0), fake_device(1)};
  driver_.write();
  MachineReader reader(options());
  ASSERT_EQ(reader.read().devices.at(0).fault, "");
  for (int after = 0; after < 25; ++after) {
    driver_.scenario["devices"][0]["lost_after"] = after;
    driver_.write();
    const MachineStatus status = reader.read();
    ASSERT_THAT(status.devices, SizeIs(2)) << after;
    const DeviceStatus& lost = status.devices[0];
    if (lost.fault.empty()) {
      EXPECT_GT(after, 10) << "all its calls were answered";
      continue;
    }
    EXPECT_THAT(lost.fault, HasSubstr("device 0 is lost"));
    EXPECT_NE(find_error_row(lost.fault_row), nullptr);
    EXPECT_EQ(lost.name, "NVIDIA A100-SXM4-40GB") << "as it was";
    EXPECT_EQ(lost.uuid, "GPU-00000000");
    EXPECT_EQ(status.devices[1].fault, "");
    EXPECT_THAT(status.devices[1].utilization_percent.value, Optional(87.0));
  }
}

TEST_F(Devices, ADeviceThatOnlyItsHandleRefusesSaysWhy) {
  Json hidden = fake_device(1);
  hidden["errors"] = {{"nvmlDeviceGetHandleByIndex_v2", 4}};
  const MachineStatus status = read({fake_device(0), hidden});
  EXPECT_EQ(status.devices.at(1).fault, "device 1: no permission");
  EXPECT_EQ(status.devices[1].fault_row, "");
  EXPECT_EQ(status.devices[1].memory.why, "no permission");
}

TEST_F(Devices, AnOlderDriverTellsWhatItKnows) {
  driver_.scenario["devices"] = Json::array({fake_device(0, {{{"pid", 41}, {"bytes", 5}}})});
  driver_.write();
  MachineReaderOptions old = options();
  old.nvml = test::FakeDriver::old_library();
  const MachineStatus status = read_machine(old);
  const DeviceStatus& device = status.devices.at(0);
  EXPECT_THAT(device.mig.value, Optional(false));
  ASSERT_TRUE(device.memory.value);
  EXPECT_EQ(device.memory.value->used_bytes, 30 * kFakeGiB + kFakeGiB / 2) << "reserved is used";
  ASSERT_THAT(device.processes, SizeIs(1));
  EXPECT_THAT(device.processes[0].memory.value, Optional(5U));
  EXPECT_EQ(device.processes_why, "");
}

TEST_F(Devices, ADriverThatDoesNotStartSaysOneSentenceWithARowOfTheCatalogue) {
  const std::vector<std::pair<int, const char*>> known = {{4, "no-device"},
                                                          {9, "no-device"},
                                                          {12, "no-device"},
                                                          {15, "device-fault"},
                                                          {18, "driver-library-mismatch"},
                                                          {999, ""}};
  for (const auto& [code, row] : known) {
    driver_.scenario["init"] = code;
    const MachineStatus status = read({fake_device(0)});
    EXPECT_EQ(status.driver.kind, DriverStatus::kFailed) << code;
    EXPECT_EQ(status.driver.error_row, row) << code;
    EXPECT_EQ(status.driver.problem.find('\n'), std::string::npos);
    EXPECT_THAT(status.driver.problem, ::testing::SizeIs(::testing::Gt(20U)));
    EXPECT_THAT(status.driver.hint, ::testing::Not(IsEmpty()));
    EXPECT_EQ(find_error_row(row) != nullptr, *row != '\0') << row;
    EXPECT_THAT(status.devices, IsEmpty());
  }
}

TEST_F(Devices, ADriverThatWasLoadedAgainIsAskedAnew) {
  driver_.scenario["devices"] = Json::array({fake_device(0)});
  driver_.write();
  MachineReader reader(options());
  ASSERT_THAT(reader.read().devices, SizeIs(1));
  driver_.scenario["count"] = 1;  // not initialised
  driver_.write();
  EXPECT_EQ(reader.read().driver.kind, DriverStatus::kFailed);
  driver_.scenario["count"] = 0;
  driver_.write();
  EXPECT_THAT(reader.read().devices, SizeIs(1));
}

TEST_F(Devices, WithoutALibraryThereIsNoDriverUnlessItsModuleIsLoaded) {
  const DriverStatus none = driver_not_loaded(around_, kNvmlName, "not found", true);
  EXPECT_EQ(none.kind, DriverStatus::kAbsent);
  EXPECT_EQ(none.problem, "no NVIDIA driver is installed here");
  EXPECT_EQ(driver_not_loaded(around_, kNvmlName, "wrong ELF class", false).kind,
            DriverStatus::kFailed);
  EXPECT_EQ(driver_not_loaded(around_, "/a.so", "not found", true).kind, DriverStatus::kFailed)
      << "one that was asked for";
  fs::create_directories(around_.path("/proc/driver/nvidia"));
  write_file_atomic(around_.path("/proc/driver/nvidia/version"),
                    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue\n");
  const DriverStatus loaded = driver_not_loaded(around_, kNvmlName, "not found", true);
  EXPECT_EQ(loaded.kind, DriverStatus::kFailed);
  EXPECT_THAT(loaded.problem,
              AllOf(HasSubstr("550.54.15"), HasSubstr("libnvidia-ml.so.1 is not found")));
  EXPECT_NE(find_error_row(loaded.error_row), nullptr);
}

TEST_F(Devices, ALibraryThatIsNotThereIsToldFromOneThatIsNone) {
  MachineReaderOptions gone = options();
  gone.nvml = (driver_.folder() / "none.so").string();
  EXPECT_THAT(read_machine(gone).driver.problem, HasSubstr("No such file"));
  EXPECT_EQ(read_machine(gone).driver.kind, DriverStatus::kFailed) << "it was asked for";
}

TEST_F(Devices, ALibraryThatIsNoneSaysTheLoadersWords) {
  MachineReaderOptions wrong = options();
  wrong.nvml = driver_.file();
  const MachineStatus status = read_machine(wrong);
  EXPECT_EQ(status.driver.kind, DriverStatus::kFailed);
  EXPECT_THAT(status.driver.problem, HasSubstr("scenario.json"));
}

}  // namespace
}  // namespace muster::diagnose
