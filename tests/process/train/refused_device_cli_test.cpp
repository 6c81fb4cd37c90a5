// `muster train` on devices that are there and cannot be used: held by another process, or too small
// for the model. One error by device and rank, nobody waits, and nothing of a run is left.
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/process/train/device_run.h"
#include "tests/support/folder.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using test::device_run;
using test::DeviceRun;
using test::small_device_run;
using test::Words;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kBusy =
    "cannot be used: CUDA error: CUDA-capable device(s) is/are busy or unavailable";

size_t times(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

void expect_no_run_in(const fs::path& folder) {
  for (const char* name : {"config.json", "metrics.csv", "latest", "checkpoints", "tensorboard"})
    EXPECT_FALSE(fs::exists(folder / name)) << name;
}

TEST(RefusedDevice, ThatAnotherProcessHoldsEndsTheRunBeforeItHasAFolder) {
  const test::Folder folder;
  const fs::path output = folder.path() / "run";
  const Words words = small_device_run(output, {"--device", "fake:0"});
  const DeviceRun refused = device_run(words, {"MUSTER_FAKE_BUSY=0"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr(std::string("muster: error: fake:0 ") + kBusy));
  EXPECT_THAT(refused.err, HasSubstr("hint: another process may hold it: `muster gpu`"));
  EXPECT_THAT(refused.err, Not(HasSubstr("Exception raised from")));
  EXPECT_FALSE(fs::exists(output));
  const DeviceRun later = device_run(words);
  EXPECT_EQ(later.code, 0) << later.err;
}

TEST(RefusedDevice, OfOneRankEndsBothByItsName) {
  const test::Folder folder;
  const fs::path output = folder.path() / "run";
  const Words words = test::on_ranks(2, small_device_run(output, {"--device", "fake"}));
  const DeviceRun refused = device_run(words, {"MUSTER_FAKE_BUSY=1"});
  EXPECT_EQ(refused.code, 1) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr(std::string("error: rank 1: fake:1 ") + kBusy));
  EXPECT_EQ(times(refused.err, "\n  | muster: error: rank 1: fake:1"), 1U) << refused.err;
  EXPECT_EQ(times(refused.err, "error: rank 0"), 0U) << refused.err;
  expect_no_run_in(output);
  const DeviceRun later = device_run(words);
  EXPECT_EQ(later.code, 0) << later.err;
}

TEST(RefusedDevice, OfAThreadEndsItsProcess) {
  const test::Folder folder;
  const fs::path output = folder.path() / "run";
  const DeviceRun refused = device_run(
      small_device_run(output, {"--strategy", "dp", "--devices", "0,1", "--device", "fake"}),
      {"MUSTER_FAKE_BUSY=1"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr(std::string("error: fake:1 ") + kBusy));
  EXPECT_FALSE(fs::exists(output));
}

TEST(RefusedDevice, LeavesARunThatGoesOnAsItWas) {
  const test::Folder folder;
  const fs::path output = folder.path() / "run";
  ASSERT_EQ(device_run(small_device_run(output)).code, 0);
  const std::string before = test::saved_bits(output);
  const Words more{"train", "--resume", output, "--epochs", "3", "--device", "fake:0"};
  EXPECT_EQ(device_run(more, {"MUSTER_FAKE_BUSY=0"}).code, 1);
  EXPECT_EQ(test::saved_bits(output), before);
  const DeviceRun asked =
      device_run({"evaluate", output, "--device", "fake:0"}, {"MUSTER_FAKE_BUSY=0"});
  EXPECT_EQ(asked.code, 1);
  EXPECT_THAT(asked.err, HasSubstr(std::string("fake:0 ") + kBusy));
  EXPECT_EQ(device_run(more).code, 0);
}

// 2048 bytes have room for a number, and not for the model.
TEST(RefusedDevice, ThatIsTooSmallForTheModelEndsTwoRanksWithoutARun) {
  const test::Folder folder;
  const fs::path output = folder.path() / "run";
  const Words words = test::on_ranks(2, small_device_run(output, {"--device", "fake"}));
  const DeviceRun refused = device_run(words, {"MUSTER_FAKE_BYTES=2048"});
  EXPECT_EQ(refused.code, 1) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("is out of memory at the start: Tried to allocate "));
  EXPECT_THAT(refused.err, HasSubstr("hint: no batch size helps; take a smaller model"));
  expect_no_run_in(output);
  const DeviceRun later = device_run(words);
  EXPECT_EQ(later.code, 0) << later.err;
}

TEST(RefusedDevice, IsSaidByNumbers) {
  const test::Folder folder;
  const DeviceRun plan =
      device_run(small_device_run(folder.path() / "run", {"--device", "fake:0", "--explain"}),
                 {"MUSTER_FAKE_BUSY=none"});
  EXPECT_EQ(plan.code, 2);
  EXPECT_THAT(plan.err, HasSubstr("MUSTER_FAKE_BUSY: numbers of devices"));
}

}  // namespace
}  // namespace muster
