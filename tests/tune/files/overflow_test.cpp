// Numbers that a study cannot hold are refused with what was written: none saturates, none turns into
// another number or into a text.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/tune/files/study_file.h"
#include "muster/tune/files/sweep_yaml.h"

#include "tests/support/error_of.h"

namespace muster::tune {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kTooLarge = "9223372036854775808";  // 2^63

std::string toml_refusal(const std::string& text) {
  return test::refusal_of([&] { parse_study(text, "runs/a.toml"); });
}

std::string yaml_refusal(const std::string& parameters) {
  return test::refusal_of([&] {
    parse_sweep("program: a\nmethod: grid\nparameters: {" + parameters + "}", "runs/s.yaml");
  });
}

std::string flag_refusal(const std::string& text) {
  return test::refusal_of([&] { parse_param_flag(text); });
}

TEST(Overflow, OfAStudyFilesWholeNumbersIsRefusedAtItsPlace) {
  for (const char* key : {"num_samples", "max_concurrent", "seed", "keep_checkpoints"}) {
    EXPECT_THAT(toml_refusal(std::string("name = \"x\"\n") + key + " = " + kTooLarge),
                AllOf(StartsWith("runs/a.toml:2:"), HasSubstr(kTooLarge)))
        << key;
    EXPECT_THAT(toml_refusal(std::string(key) + " = 1e30"),
                AllOf(StartsWith("runs/a.toml:1:1: "), HasSubstr("(got 1e+30)")))
        << key;
  }
  EXPECT_EQ(parse_study("num_samples = 9223372036854775807", "a.toml").num_samples, INT64_MAX);
  EXPECT_THAT(toml_refusal("time_budget_s = inf"), HasSubstr("a finite number (got inf)"));
}

TEST(Overflow, OfAnAmountOfMemoryIsRefusedWithWhatWasWritten) {
  const std::string table = "[resources_per_trial]\n";
  EXPECT_THAT(toml_refusal(table + "memory = \"9000000T\""),
              AllOf(StartsWith("runs/a.toml:2:1: "), HasSubstr("(got 9000000T)")));
  EXPECT_THAT(toml_refusal(table + "memory_bytes = " + kTooLarge), HasSubstr(kTooLarge));
  EXPECT_THAT(toml_refusal(table + "memory_bytes = -1"), HasSubstr("(got -1)"));
}

TEST(Overflow, OfAParameterIsRefusedWithWhatWasWritten) {
  for (const std::string domain :
       {"choice(1, ", "grid_search(1, ", "randint(1, ", "sample_from("}) {
    const std::string text = domain + kTooLarge + ")";
    EXPECT_THAT(toml_refusal("[space]\nx = \"" + text + '"'),
                AllOf(StartsWith("runs/a.toml:2:1: "), HasSubstr(kTooLarge)));
    EXPECT_THAT(flag_refusal("x=" + text), AllOf(StartsWith("--param x"), HasSubstr(kTooLarge)));
  }
  EXPECT_THAT(toml_refusal(std::string("[space]\nx = ") + kTooLarge), HasSubstr(kTooLarge));
}

TEST(Overflow, OfAConstantOfAFlagIsRefusedThoughADoubleWouldTakeIt) {
  EXPECT_EQ(flag_refusal(std::string("x=") + kTooLarge),
            "--param x: a whole number has 64 bits (got 9223372036854775808)\n"
            "hint: a text of digits stands in quotes");
  EXPECT_THAT(flag_refusal("x=-9223372036854775809"), HasSubstr("(got -9223372036854775809)"));
  EXPECT_THAT(flag_refusal("x=1e400"), HasSubstr("a number fits into a double (got 1e400)"));
  EXPECT_EQ(parse_param_flag("x=-9223372036854775808").domain.constant(), Value(INT64_MIN));
  EXPECT_EQ(parse_param_flag(std::string("x='") + kTooLarge + "'").domain.constant(),
            Value(kTooLarge));
}

TEST(Overflow, OfASweepIsRefusedAtItsPlace) {
  EXPECT_THAT(yaml_refusal(std::string("a: {value: ") + kTooLarge + "}"),
              AllOf(StartsWith("runs/s.yaml:3:"), HasSubstr("64 bits"), HasSubstr(kTooLarge)));
  EXPECT_THAT(yaml_refusal("a: {value: 1e400}"), HasSubstr("a double (got 1e400)"));
  const std::string grid = "a: {distribution: q_uniform, min: ";
  EXPECT_THAT(yaml_refusal(grid + "18014398509481984, max: 18014398509481992, q: 1.0}"),
              AllOf(StartsWith("runs/s.yaml:3:"), HasSubstr("(got 18014398509481984)")))
      << "2^54 + 1 is 2^54 as a double";
  EXPECT_THAT(yaml_refusal(grid + "0, max: 1.0e+20, q: 100000000000000000}"),
              AllOf(StartsWith("runs/s.yaml:3:"), HasSubstr("(got 1e+17)")));
}

}  // namespace
}  // namespace muster::tune
