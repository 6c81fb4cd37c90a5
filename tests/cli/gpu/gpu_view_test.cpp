// The screen of `muster gpu --watch` without a terminal: readings and keys in, rows out.
#include "cli/gpu/gpu_view.h"

#include <limits>

#include <gmock/gmock.h>

#include "muster/base/text.h"
#include "muster/base/text_table.h"

#include "cli/gpu/machine_text.h"

namespace muster::cli {
namespace {

using diagnose::DeviceProcess;
using diagnose::DeviceStatus;
using diagnose::DriverStatus;
using diagnose::MachineStatus;
using diagnose::MemoryUse;
using diagnose::ProcessFacts;
using diagnose::Whereabouts;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kGiB = 1 << 30;

DeviceProcess process_of(int64_t pid, uint64_t bytes, const std::string& command) {
  DeviceProcess process{.pid = pid, .kind = "C", .where = Whereabouts::kHere};
  process.memory.value = bytes;
  process.facts = ProcessFacts{.pid = pid,
                               .uid = 1000,
                               .user = "ann",
                               .command = command,
                               .rss_bytes = kGiB * static_cast<uint64_t>(pid) / 10};
  return process;
}

DeviceStatus device_of(int64_t index, double percent) {
  DeviceStatus device{.index = index, .name = "NVIDIA A100-SXM4-40GB", .uuid = "GPU-a"};
  device.mig.value = false;
  device.utilization_percent.value = percent;
  device.memory.value =
      MemoryUse{.total_bytes = 40 * kGiB, .used_bytes = 10 * kGiB, .free_bytes = 30 * kGiB};
  device.temperature_c.value = 64;
  device.power_w.value = 312.4;
  device.power_limit_w.value = 400;
  device.ecc_errors.value = 0;
  device.compute_mode.value = "default";
  return device;
}

MachineStatus two_devices() {
  MachineStatus status;
  status.driver = {.kind = DriverStatus::kReady, .version = "550.54.15", .cuda = "12.4"};
  status.devices = {device_of(0, 87), device_of(1, 3)};
  status.devices[0].processes = {process_of(30, 2 * kGiB, "./small"),
                                 process_of(10, 8 * kGiB, "./train --epochs 3")};
  status.devices[1].processes = {process_of(20, 4 * kGiB, "./other")};
  DeviceProcess& first = status.devices[0].processes[1];
  first.published = diagnose::PublishedState{.program = "muster train", .doing = "step 7"};
  first.published->rank = 1;
  first.published->world_size = 4;
  first.published->devices = {{.device = "GPU-a",
                               .name = "cuda:0",
                               .allocated_bytes = 6 * kGiB,
                               .reserved_bytes = 7 * kGiB,
                               .retries = 2}};
  first.allocator = first.published->devices[0];
  status.host = {.name = "box", .total_bytes = 32 * kGiB, .available_bytes = 24 * kGiB};
  return status;
}

std::string drawn(GpuModel& model,
                  const GpuWait& wait = {},
                  size_t columns = 80,
                  size_t rows = 24) {
  Canvas canvas(columns, rows);
  draw_gpu(model, wait, canvas);
  std::string text;
  for (size_t row = 0; row < rows; ++row) text += canvas.line(row) + '\n';
  return text;
}

class GpuScreen : public ::testing::Test {
 protected:
  GpuScreen() { update(two_devices()); }
  void update(const MachineStatus& status) {
    model_.update(std::make_shared<const MachineStatus>(status));
  }
  void press(const std::string& letters) {
    for (const char c : letters) EXPECT_TRUE(model_.on_key({Key::kLetter, std::string(1, c)}));
  }
  std::vector<int64_t> pids() const {
    std::vector<int64_t> list;
    for (const ProcessRow& row : model_.rows()) list.push_back(row.pid);
    return list;
  }

  GpuModel model_;
};

TEST(GpuText, FitsEightyColumnsWithDevicesProcessesAndHost) {
  const std::string text = machine_text(two_devices(), 80);
  EXPECT_THAT(
      text,
      AllOf(HasSubstr("NVIDIA driver 550.54.15, CUDA up to 12.4, 2 devices\n"),
            HasSubstr("0  A100-SXM4-40GB  87 %  10 GiB of 40 GiB  25 %  64 °C  312 of 400 W\n"),
            HasSubstr("10  ann   C     8.0 GiB    6.0 GiB   7.0 GiB  1.0 GiB  rank 1: ./train"),
            HasSubstr("host      memory 8.0 GiB of 32 GiB (25 %), swap none")));
  for (const size_t width : {40, 60, 80, 200}) {
    for (const std::string& line : split(machine_text(two_devices(), width), '\n'))
      EXPECT_LE(columns_of(line), width) << line;
  }
}

TEST(GpuText, ColumnsGoWhereThereIsNoRoomButTheDeviceAndItsMemoryStay) {
  const std::string text = machine_text(two_devices(), 50);
  EXPECT_THAT(text, AllOf(HasSubstr("10 GiB of 40 GiB"), Not(HasSubstr("power"))));
  EXPECT_THAT(text, AllOf(HasSubstr("8.0 GiB"), HasSubstr("command"), Not(HasSubstr("type"))));
}

TEST(GpuText, SaysWhatIsMissingAndWhy) {
  MachineStatus status = two_devices();
  status.devices[0].mig.value = true;
  status.devices[0].utilization_percent = {{}, "not available under MIG"};
  status.devices[0].instances = {
      {.index = 0, .name = "NVIDIA A100-SXM4-40GB MIG 3g.20gb", .uuid = "MIG-a"}};
  status.devices[0].instances[0].memory.value =
      MemoryUse{.total_bytes = 20 * kGiB, .used_bytes = 5 * kGiB};
  status.devices[1].fault = "device 1 is lost: it does not answer on the bus any more";
  status.devices[1].fault_row = "device-fault";
  const std::string text = machine_text(status, 80);
  EXPECT_THAT(text,
              AllOf(HasSubstr("device 0: no utilisation (not available under MIG)"),
                    HasSubstr("0.0  MIG 3g.20gb  "),
                    HasSubstr("5.0 GiB of 20 GiB"),
                    HasSubstr("device 1 is lost"),
                    HasSubstr("next step: Take the machine out of use"),
                    HasSubstr("(device-fault)")));
}

TEST(GpuText, ADriverThatFailsHasItsHintAndTheCataloguesName) {
  MachineStatus status;
  status.driver = {.kind = DriverStatus::kFailed,
                   .problem = "the parts do not fit",
                   .hint = "reboot",
                   .error_row = "driver-library-mismatch"};
  EXPECT_THAT(machine_text(status, 80),
              AllOf(HasSubstr("the parts do not fit\nhint: reboot\nsee driver-library-mismatch")));
}

TEST(GpuText, CommandsOfOthersDoNoHarm) {
  MachineStatus status = two_devices();
  status.devices[0].processes[0].facts->command = "a\x1b]0;x\x07\nb\xff";
  EXPECT_THAT(machine_text(status, 100), HasSubstr("a\\x1b]0;x\\x07\\nb\xEF\xBF\xBD"));
}

TEST_F(GpuScreen, ShowsDevicesWithCurvesHostAndProcesses) {
  const std::string text = drawn(model_);
  EXPECT_THAT(text,
              AllOf(HasSubstr("box  NVIDIA driver 550.54.15"),
                    HasSubstr("every 1 s"),
                    HasSubstr("util ▇"),
                    HasSubstr("memory ▃"),
                    HasSubstr("rank 1: ./train"),
                    HasSubstr("? help")));
}

TEST_F(GpuScreen, CurvesAreOnAFixedScaleAndKeepTheirGaps) {
  MachineStatus status = two_devices();
  status.devices[0].utilization_percent = {{}, "no permission"};
  update(status);
  update(two_devices());
  const auto load = model_.history().load_of(0);
  ASSERT_EQ(load.size(), 3U);
  EXPECT_DOUBLE_EQ(load[0], 0.87);
  EXPECT_TRUE(std::isnan(load[1]));
  EXPECT_THAT(drawn(model_), HasSubstr("util ▇·▇"));
  EXPECT_EQ(sparkline({0, 0.5, 1, 2, -1}, 9, 0, 1), "▁▅██▁");
  EXPECT_EQ(sparkline({0.5, 0.5}, 9, 0, 1), "▅▅") << "what does not change is not the least";
  EXPECT_EQ(sparkline({0.5, std::numeric_limits<double>::infinity()}, 9, 0, 1), "▅·");
}

TEST_F(GpuScreen, ADeviceThatComesLaterBeginsItsCurveThen) {
  MachineStatus status = two_devices();
  status.devices.push_back(device_of(2, 50));
  update(status);
  const auto load = model_.history().load_of(2);
  ASSERT_EQ(load.size(), 2U);
  EXPECT_TRUE(std::isnan(load[0]));
  EXPECT_DOUBLE_EQ(load[1], 0.5);
  for (size_t i = 0; i < GpuHistory::kMost + 5; ++i) update(status);
  EXPECT_EQ(model_.history().load_of(2).size(), GpuHistory::kMost);
}

TEST(GpuCurves, TheProcessorsShareIsBetweenTwoReadings) {
  GpuHistory history;
  MachineStatus status;
  for (const auto& [all, busy] : {std::pair<uint64_t, uint64_t>{1000, 400}, {1200, 450}}) {
    status.host.cpu_ticks = all;
    status.host.cpu_busy_ticks = busy;
    history.add(status);
  }
  ASSERT_EQ(history.cpu().size(), 2U);
  EXPECT_TRUE(std::isnan(history.cpu()[0]));
  EXPECT_DOUBLE_EQ(history.cpu()[1], 0.25);
}

TEST_F(GpuScreen, SortsByDeviceMemoryRssAndNumber) {
  EXPECT_THAT(pids(), ElementsAre(10, 30, 20)) << "by device, the largest first";
  press("s");
  EXPECT_THAT(pids(), ElementsAre(10, 20, 30));
  press("s");
  EXPECT_THAT(pids(), ElementsAre(30, 20, 10));
  press("s");
  EXPECT_THAT(pids(), ElementsAre(10, 20, 30));
}

TEST_F(GpuScreen, TheSelectedProcessStaysSelectedWhereverItGoes) {
  press("j");
  EXPECT_EQ(model_.rows()[model_.selected()].pid, 30);
  MachineStatus status = two_devices();
  status.devices[0].processes[0].memory.value = 9 * kGiB;
  update(status);
  EXPECT_THAT(pids(), ElementsAre(30, 10, 20));
  EXPECT_EQ(model_.rows()[model_.selected()].pid, 30);
  status.devices[0].processes.erase(status.devices[0].processes.begin());
  update(status);
  EXPECT_LT(model_.selected(), model_.rows().size());
}

TEST_F(GpuScreen, AHeldScreenDoesNotChangeAndItsCurvesGoOn) {
  press(" ");
  MachineStatus status = two_devices();
  status.devices.pop_back();
  update(status);
  EXPECT_EQ(model_.status()->devices.size(), 2U);
  EXPECT_THAT(drawn(model_), HasSubstr("held"));
  press(" ");
  EXPECT_EQ(model_.status()->devices.size(), 1U);
  EXPECT_EQ(model_.history().readings(), 2U);
}

TEST_F(GpuScreen, TheDetailsTellWhatAProcessSaysOfItself) {
  EXPECT_TRUE(model_.on_key({Key::kEnter}));
  EXPECT_THAT(drawn(model_, {}, 100, 30),
              AllOf(HasSubstr("── process 10 ──"),
                    HasSubstr("muster train, rank 1 of 4, step 7"),
                    HasSubstr("cuda:0: allocated 6.0 GiB"),
                    HasSubstr("cache emptied 2 times")));
  EXPECT_TRUE(model_.on_key({Key::kEscape}));
  EXPECT_THAT(drawn(model_, {}, 100, 30), Not(HasSubstr("── process")));
}

TEST_F(GpuScreen, SaysWhichCallDoesNotComeBack) {
  const GpuWait wait{.reading_s = 7.2, .on = "nvmlDeviceGetPowerUsage of device 1"};
  EXPECT_THAT(drawn(model_, wait), HasSubstr("no answer for 7 s from "));
  EXPECT_THAT(drawn(model_, wait), HasSubstr("nvmlDeviceGetPowerUsage of device 1"));
  GpuModel none;
  EXPECT_THAT(drawn(none, {.reading_s = 0.1, .on = "nvmlInit"}), HasSubstr("waiting for nvmlInit"));
}

TEST_F(GpuScreen, IsDrawnAtAnySizeWithAnyNumberOfDevices) {
  MachineStatus status = two_devices();
  for (int64_t i = 2; i < 16; ++i) status.devices.push_back(device_of(i, 1));
  for (const bool has_details : {false, true}) {
    if (has_details) model_.on_key({Key::kEnter});
    for (const size_t count : {0, 1, 16}) {
      MachineStatus some = status;
      some.devices.resize(count);
      update(some);
      for (const size_t columns : {1, 20, 49, 50, 80, 300}) {
        for (const size_t rows : {1, 9, 10, 11, 24, 100}) drawn(model_, {}, columns, rows);
      }
    }
  }
  EXPECT_THAT(drawn(model_, {}, 80, 18), HasSubstr("more devices"));
  EXPECT_THAT(drawn(model_, {}, 80, 24), HasSubstr("\n15  A100")) << "without curves";
  EXPECT_THAT(drawn(model_, {}, 49, 30), HasSubstr("too small: 49x30"));
  press("?");
  EXPECT_THAT(drawn(model_), HasSubstr("hold the screen"));
  press("x");
  EXPECT_THAT(drawn(model_), Not(HasSubstr("hold the screen"))) << "any key ends the help";
}

TEST_F(GpuScreen, LeavesByItsKeyAndByASignal) {
  EXPECT_FALSE(model_.on_key({Key::kLetter, "q"}));
  EXPECT_FALSE(model_.on_key({Key::kInterrupt}));
}

}  // namespace
}  // namespace muster::cli
