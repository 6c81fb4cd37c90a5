// `muster gpu` as a process, over a fake driver.
#include <algorithm>
#include <filesystem>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "muster/base/text.h"
#include "muster/base/text_table.h"
#include "muster/diagnose/devices/published_state.h"

#include "tests/support/fake_driver.h"
#include "tests/support/launched.h"
#include "tests/support/on_terminal.h"

namespace muster::cli {
namespace {

using test::fake_device;
using test::fake_mig_device;
using test::kFakeGiB;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using testing_process::Ended;
using testing_process::Launched;
using testing_process::OnTerminal;

class GpuCommand : public ::testing::Test {
 protected:
  void set(std::vector<Json> devices) {
    driver_.scenario["devices"] = std::move(devices);
    driver_.write();
  }

  /// Runs it and keeps what it printed.
  int run(std::vector<std::string> args) {
    args.insert(args.begin(), "gpu");
    Launched muster(args, {.environment = driver_.environment()});
    const Ended ended = muster.wait();
    out_ = muster.out();
    err_ = muster.err();
    return ended.code;
  }

  Json json(std::vector<std::string> args = {}) {
    args.emplace_back("--json");
    run(args);
    return parse_json(out_, "stdout");
  }

  /// Makes the named call wait for ever, or until `release`.
  void block(const std::string& call) {
    ASSERT_EQ(::mkfifo(fifo().c_str(), 0600), 0);
    driver_.scenario["block"] = {{call, fifo()}};
    driver_.write();
  }
  std::string fifo() const { return (driver_.folder() / "fifo").string(); }

  test::FakeDriver driver_;
  std::string out_, err_;
};

TEST_F(GpuCommand, PrintsDevicesAndTheirProcesses) {
  set({fake_device(0, {{{"pid", 1999999999}, {"bytes", 29 * kFakeGiB}}}), fake_mig_device(1)});
  EXPECT_EQ(run({}), 0);
  EXPECT_THAT(err_, IsEmpty());
  EXPECT_THAT(out_,
              AllOf(StartsWith("NVIDIA driver 550.54.15, CUDA up to 12.4, 2 devices\n"),
                    HasSubstr("30 GiB of 40 GiB"),
                    HasSubstr("312 of 400 W"),
                    HasSubstr("1999999999"),
                    HasSubstr("29 GiB"),
                    HasSubstr("device 1: no utilisation (not available under MIG)"),
                    HasSubstr("1.1  ")));
  for (const std::string& line : split(out_, '\n')) EXPECT_LE(columns_of(line), 80U) << line;
}

TEST_F(GpuCommand, AnswersAScriptInJson) {
  set({fake_device(0, {{{"pid", 1999999999}}}), fake_mig_device(1)});
  const Json status = json();
  EXPECT_EQ(status.at("version"), 1);
  EXPECT_EQ(status.at("driver").at("state"), "ready");
  const Json& device = status.at("devices").at(0);
  EXPECT_EQ(device.at("utilization_percent"), 87);
  EXPECT_EQ(device.at("memory").at("used_bytes"), 30 * kFakeGiB);
  EXPECT_EQ(device.at("processes").at(0).at("memory_bytes"), Json());
  EXPECT_THAT(device.at("missing").at("processes.memory_bytes").get<std::string>(),
              HasSubstr("Windows"));
  const Json& mig = status.at("devices").at(1);
  EXPECT_EQ(mig.at("utilization_percent"), Json());
  EXPECT_EQ(mig.at("missing").at("utilization_percent"), "not available under MIG");
  EXPECT_EQ(mig.at("instances").size(), 2U);
  EXPECT_GT(status.at("host").at("total_bytes"), 0);
}

TEST_F(GpuCommand, ShowsWhatProcessesPublish) {
  diagnose::StatePublisher publisher(driver_.folder() / "status");
  ASSERT_TRUE(publisher.publish({.program = "a test",
                                 .rank = 2,
                                 .world_size = 3,
                                 .devices = {{.device = "GPU-00000000",
                                              .name = "cuda:0",
                                              .allocated_bytes = 3 * kFakeGiB,
                                              .reserved_bytes = 5 * kFakeGiB}}}));
  set({fake_device(0, {{{"pid", ::getpid()}, {"bytes", 7 * kFakeGiB}}})});
  EXPECT_EQ(run({}), 0);
  EXPECT_THAT(out_, AllOf(HasSubstr("allocated"), HasSubstr("rank 2: "), HasSubstr("5.0 GiB")));
  const Json process = json().at("devices").at(0).at("processes").at(0);
  EXPECT_EQ(process.at("where"), "here");
  EXPECT_EQ(process.at("allocator").at("allocated_bytes"), 3 * kFakeGiB);
  EXPECT_EQ(process.at("published").at("rank"), 2);
  set({});
  EXPECT_EQ(json({"--processes", "0"}).at("processes").at(0).at("published").at("program"),
            "a test")
      << "without a device, too";
}

/// Of all objects, but of `missing`, whose keys are others' names.
void add_keys(const Json& json, std::vector<std::string>& keys) {
  for (const auto& [key, value] : json.items()) {
    if (json.is_object()) keys.push_back(key);
    if (key != "missing" && value.is_structured()) add_keys(value, keys);
  }
}

TEST_F(GpuCommand, TheGuideNamesEveryKeyOfTheJson) {
  diagnose::StatePublisher publisher(driver_.folder() / "status");
  ASSERT_TRUE(publisher.publish({.devices = {{.device = "GPU-00000000"}}}));
  set({fake_device(0, {{{"pid", ::getpid()}, {"bytes", 7}}}), fake_mig_device(1)});
  std::vector<std::string> keys;
  add_keys(json(), keys);
  EXPECT_GT(keys.size(), 100U);
  const std::string guide = read_file(test::source_path("docs/gpu.md"));
  for (const std::string& key : keys) {
    const bool is_named =
        guide.find(key + '`') != std::string::npos || guide.find(key + "[]`") != std::string::npos;
    EXPECT_TRUE(is_named) << key;
  }
}

TEST_F(GpuCommand, OnAMachineWithoutADeviceShowsMemoryAndTheLargestProcesses) {
  set({});
  EXPECT_EQ(run({"--processes", "3"}), 0);
  EXPECT_THAT(out_, AllOf(HasSubstr("no device"), HasSubstr("host      memory"), HasSubstr("RSS")));
  EXPECT_EQ(json({"--processes", "2"}).at("processes").size(), 2U);
  EXPECT_EQ(json({"--processes", "0"}).at("processes").size(), 0U);
}

TEST_F(GpuCommand, ADriverThatFailsIsOneSentenceAndExitsWithOne) {
  driver_.scenario["init"] = 18;
  driver_.write();
  EXPECT_EQ(run({}), 1);
  EXPECT_THAT(out_,
              AllOf(StartsWith("the driver's library and its kernel module are of different "
                               "versions\n"),
                    HasSubstr("hint: the driver was upgraded"),
                    HasSubstr("driver-library-mismatch")));
  EXPECT_EQ(json().at("driver").at("error"), "driver-library-mismatch");
}

TEST_F(GpuCommand, ChoosesFreeDevicesByUuid) {
  Json idle = fake_device(1);
  idle["used"] = kFakeGiB;
  idle["utilization"] = 0;
  set({fake_device(0), idle, fake_mig_device(2)});
  EXPECT_EQ(run({"--available", "4"}), 0);
  EXPECT_EQ(out_, "GPU-00000001\n");
  EXPECT_EQ(run({"--available", "2", "--max-load", "2", "--max-memory", "2", "--order", "last"}),
            0);
  EXPECT_EQ(out_, "GPU-00000001,GPU-00000000\n") << "no load is known under MIG";
  EXPECT_EQ(json({"--available", "1"}).at("available").at(0).at("index"), 1);
  EXPECT_EQ(run({"--available", "1", "--max-memory", "0.01"}), 1);
  EXPECT_THAT(out_, IsEmpty());
  EXPECT_THAT(err_, HasSubstr("none of 3 devices is free"));
}

TEST_F(GpuCommand, PrintsGputilsTable) {
  set({fake_device(0), fake_mig_device(1)});
  EXPECT_EQ(run({"--util"}), 0);
  EXPECT_EQ(out_,
            "| ID | GPU  | MEM |\n"
            "-------------------\n"
            "|  0 |  87% | 75% |\n"
            "|  1 | nan% | 75% |\n");
  EXPECT_THAT(err_, HasSubstr("device 1: no utilisation: not available under MIG"));
}

TEST_F(GpuCommand, ACallThatNeverComesBackEndsWithAnError) {
  set({fake_device(0), fake_device(1)});
  block("nvmlDeviceGetPowerUsage");
  EXPECT_EQ(run({"--timeout", "0.2"}), 1);
  EXPECT_THAT(err_, AllOf(HasSubstr("the driver does not answer"), HasSubstr("within 0.2 s")));
  EXPECT_THAT(out_, IsEmpty());
}

TEST_F(GpuCommand, AShutdownThatNeverComesBackHoldsNobodyUp) {
  set({fake_device(0)});
  block("nvmlShutdown");
  EXPECT_EQ(run({}), 0);
  EXPECT_THAT(out_, HasSubstr("30 GiB of 40 GiB"));
}

TEST_F(GpuCommand, RefusesWhatDoesNotGoTogether) {
  for (const std::vector<std::string>& args : {std::vector<std::string>{"--json", "--util"},
                                               {"--watch", "--json"},
                                               {"--interval", "0"},
                                               {"--timeout", "nan"},
                                               {"--available", "0"},
                                               {"--available", "1", "--order", "fist"},
                                               {"--max-load", "-1"}}) {
    EXPECT_EQ(run(args), 2) << join(args, " ");
    EXPECT_THAT(out_, IsEmpty());
  }
  for (const std::vector<std::string>& args : {std::vector<std::string>{"--interval", "2"},
                                               {"--order", "random"},
                                               {"--json", "--include-unknown"},
                                               {"--util", "--processes", "3"},
                                               {"--watch", "--timeout", "3"}}) {
    EXPECT_EQ(run(args), 2) << join(args, " ");
    EXPECT_THAT(err_, HasSubstr("it goes with ")) << join(args, " ");
  }
  EXPECT_EQ(run({"--watch"}), 2) << "no terminal";
  EXPECT_THAT(err_, HasSubstr("muster gpu --json"));
}

TEST_F(GpuCommand, WatchesOnATerminalAndSeesChanges) {
  set({fake_device(0)});
  OnTerminal watch({"gpu", "--watch", "--interval", "0.1"}, {.environment = driver_.environment()});
  ASSERT_TRUE(watch.shows("30 GiB of 40 GiB")) << watch.text();
  set({fake_device(0), fake_mig_device(1)});
  ASSERT_TRUE(watch.shows("2 devices")) << watch.text();
  EXPECT_TRUE(watch.shows("MIG 3g.20gb")) << watch.text();
  Json lost = fake_device(0);
  lost["errors"] = {{"nvmlDeviceGetMemoryInfo_v2", 15}};
  set({lost});
  ASSERT_TRUE(watch.shows("device 0 is lost")) << watch.text();
  watch.type("q");
  EXPECT_EQ(watch.end(), 0);
  EXPECT_TRUE(watch.is_as_before());
}

TEST_F(GpuCommand, KeysAndSignalsEndItWhileTheDriverDoesNotAnswer) {
  set({fake_device(0), fake_device(1)});
  block("nvmlDeviceGetTemperature");
  const testing_process::TerminalOptions options{.environment = driver_.environment()};
  {
    OnTerminal watch({"gpu", "--watch"}, options);
    ASSERT_TRUE(watch.shows("waiting for nvmlDeviceGetTemperature of device 0")) << watch.text();
    watch.type("?");
    ASSERT_TRUE(watch.shows("hold the screen")) << watch.text();
    watch.type("xq");
    EXPECT_EQ(watch.end(), 0);
    EXPECT_TRUE(watch.is_as_before());
  }
  for (const int signal : {SIGINT, SIGTERM}) {
    OnTerminal watch({"gpu", "--watch"}, options);
    ASSERT_TRUE(watch.shows("waiting for")) << watch.text();
    watch.signal(signal);
    EXPECT_EQ(watch.end(), 130);
    EXPECT_TRUE(watch.is_as_before());
  }
}

TEST_F(GpuCommand, ReadsAStatusFolderThatItMayNotWrite) {
  const auto folder = driver_.folder() / "status";
  const diagnose::StatePublisher publisher(folder);
  ASSERT_TRUE(publisher.is_open());
  std::filesystem::permissions(
      folder, std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  set({});
  EXPECT_EQ(json().at("status_files").at("live"), 1);
  std::filesystem::permissions(folder, std::filesystem::perms::owner_all);
}

}  // namespace
}  // namespace muster::cli
