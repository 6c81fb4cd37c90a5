// `muster train --precision` as a user runs it.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/json.h"
#include "muster/base/text.h"

#include "tests/process/train/train_words.h"
#include "tests/support/folder.h"
#include "tests/support/launched.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using test::Words;
using ::testing::HasSubstr;
using testing_process::Launched;
using testing_process::LaunchOptions;

constexpr std::chrono::seconds kPrecisionLimit{60};
// See tests/train/loop/mixed_run.h.
const LaunchOptions kWithoutAmx{.environment = {"ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16"}};

struct Said {
  int code;
  std::string out, err;
};

Said say(const Words& words) {
  Launched program(words, kWithoutAmx);
  const int code = program.wait(kPrecisionLimit).code;
  return {code, program.out(), program.err()};
}

TEST(PrecisionCommand, ShowsTheStepsThatTwoRanksLeftOutAndTheScale) {
  const test::Folder folder;
  Words words = test::train_uneven({"--precision",
                                    "16-mixed:init_scale=1e30,backoff_factor=0.001",
                                    "--epochs",
                                    "2",
                                    "--json",
                                    "--output",
                                    folder.path() / "out"});
  words.insert(words.begin(), {"run", "--nproc-per-node", "2", "--", "muster"});
  const Said said = say(words);
  ASSERT_EQ(said.code, 0) << said.err;
  const Json result = Json::parse(said.out.substr(said.out.find('{')));
  EXPECT_GT(result.at("skipped_steps").get<int64_t>(), 5);
  EXPECT_THAT(
      said.err,
      HasSubstr(concat(result.at("skipped_steps").get<int64_t>(), " steps left out so far")));
  EXPECT_THAT(said.err, HasSubstr("; loss scale "));
}

TEST(PrecisionCommand, AFileSaysItAsAFlagDoes) {
  const test::Folder folder;
  const fs::path table = folder.path() / "table.toml", number = folder.path() / "number.toml";
  std::ofstream(table) << "[precision]\nname = \"16-mixed\"\ninit_scale = 1024\n";
  std::ofstream(number) << "precision = 32\n";
  const Said flag =
      say(test::train_uneven({"--precision", "16-mixed:init_scale=1024", "--explain"}));
  ASSERT_EQ(flag.code, 0) << flag.err;
  EXPECT_THAT(flag.out, HasSubstr("16-mixed:init_scale=1024: autocast to float16"));
  EXPECT_EQ(say(test::train_uneven({"--config", table, "--explain"})).out, flag.out);
  EXPECT_EQ(say(test::train_uneven({"--config", number, "--explain"})).out,
            say(test::train_uneven({"--explain"})).out);
}

TEST(PrecisionCommand, AResumedRunKeepsIt) {
  const test::Folder folder;
  const fs::path output = folder.path() / "out";
  const Said first =
      say(test::train_uneven({"--precision", "bf16-mixed", "--epochs", "1", "--output", output}));
  ASSERT_EQ(first.code, 0) << first.err;
  const Said other = say({"train", "--resume", output, "--epochs", "2", "--precision", "32"});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("precision was bf16-mixed, now 32"));
  const Said same = say({"train", "--resume", output, "--epochs", "2", "--explain"});
  EXPECT_THAT(same.out, HasSubstr("precision     bf16-mixed"));
}

TEST(PrecisionCommand, RefusesAnUnknownOneInTwoLines) {
  const Said said = say(test::train_uneven({"--precision", "fp16"}));
  EXPECT_EQ(said.code, 2);
  EXPECT_EQ(said.out, "");
  EXPECT_EQ(said.err,
            "muster: error: --precision: 32 or bf16-mixed or 16-mixed (got fp16)\n"
            "hint: known: 32, bf16-mixed, 16-mixed\n");
}

}  // namespace
}  // namespace muster
