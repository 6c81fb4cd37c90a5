// `muster train --max-time`, as a user gives it: a run whose time is over is saved and tested, and goes
// on with more of it as if nothing had ended it.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

#include "tests/process/train/device_run.h"
#include "tests/support/folder.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using test::device_run;
using test::DeviceRun;
using test::saved_bits;
using test::small_device_run;
using ::testing::HasSubstr;

// A microsecond is over before the first step, on any machine.
TEST(TimeLimitCommand, EndsInOrderAndGoesOnToTheUnbrokenRunsWeights) {
  const test::Folder folder;
  const fs::path whole = folder.path() / "whole", timed = folder.path() / "timed";
  ASSERT_EQ(device_run(small_device_run(whole)).code, 0);
  const DeviceRun ended = device_run(small_device_run(timed, {"--json", "--max-time", "0.000001"}));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("stopped after step 0: --max-time"));
  const Json said = parse_json(trim(ended.out), "out");
  EXPECT_EQ(said.at("steps"), 0);
  EXPECT_TRUE(said.contains("test_accuracy"));
  const DeviceRun on = device_run({"train", "--resume", timed, "--max-time", "10h"});
  EXPECT_EQ(on.code, 0) << on.err;
  EXPECT_EQ(saved_bits(timed), saved_bits(whole));
  EXPECT_EQ(parse_json(read_file(timed / "config.json"), "config.json").at("max_time"), 36000);
}

TEST(TimeLimitCommand, IsRefusedWhereItIsNoTime) {
  const test::Folder folder;
  const DeviceRun refused =
      device_run(small_device_run(folder.path() / "none", {"--max-time", "soon"}));
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--max-time: a span of time is needed: 90s, 1h30m"));
}

}  // namespace
}  // namespace muster
