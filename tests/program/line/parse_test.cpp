// What a command line is refused with: what, the rule, the value, a hint, in our own words.
#include "muster/program/line/parse.h"

#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/program/line/said.h"
#include "muster/program/line/value.h"

#include "tests/support/error_of.h"

namespace muster::program {
namespace {

using ::testing::HasSubstr;

struct Parsed {
  int64_t epochs = 3;
  uint64_t seed = 0;
  double lr = 0.1;
  std::optional<int64_t> limit;
  std::string storage;
  bool json = false;
};

Parsed parsed(const std::vector<std::string>& words) {
  Parsed values;
  const auto app = make_app("muster study show", "A table.", "Examples:\n");
  add_value(*app, "storage", values.storage, "the study's file")->type_name("STORAGE")->required();
  add_value(*app, "-e,--epochs", values.epochs, "times")->type_name("N")->capture_default_str();
  add_value(*app, "--seed", values.seed, "of draws")->type_name("N");
  add_value(*app, "--lr", values.lr, "rate")->type_name("X");
  add_value(*app, "--limit", values.limit, "most")->type_name("N");
  app->add_flag("--json", values.json, "for a script");
  std::ostringstream out, err;
  Console console(out, err, false, false);
  EXPECT_EQ(parse(*app, words, console), std::nullopt);
  return values;
}

std::string refused(const std::vector<std::string>& words) {
  return test::refusal_of([&] { parsed(words); });
}

TEST(Parse, TakesValuesInBothForms) {
  const Parsed values = parsed({"a.db", "-e", "7", "--lr=1e-3", "--limit", "-2", "--json"});
  EXPECT_EQ(values.epochs, 7);
  EXPECT_EQ(values.lr, 1e-3);
  EXPECT_EQ(values.limit, -2);
  EXPECT_TRUE(values.json);
  EXPECT_EQ(parsed({"a.db"}).limit, std::nullopt);
  EXPECT_EQ(parsed({"a.db", "--seed", "18446744073709551615"}).seed, UINT64_MAX);
  EXPECT_EQ(parsed({"a.db", "--epochs", "9223372036854775807"}).epochs, INT64_MAX);
}

TEST(Parse, RefusesAPathThatNoFileCanHave) {
  std::filesystem::path output;
  const auto app = make_app("muster study plot", "A page.", "Examples:\n");
  add_value(*app, "--output", output, "a file")->type_name("FILE");
  std::ostringstream out, err;
  Console console(out, err, false, false);
  const std::vector<std::string> words = {"--output", std::string(300, 'a') + ".html"};
  EXPECT_THAT(test::refusal_of([&] { parse(*app, words, console); }),
              HasSubstr("--output: a name in a path has at most 255 bytes (got aaa"));
}

// CLI11 takes the largest number there is instead, and says nothing.
TEST(Parse, RefusesANumberThatDoesNotFitWithItsRange) {
  for (const char* number :
       {"9223372036854775808", "99999999999999999999", "-9223372036854775809"}) {
    EXPECT_EQ(refused({"a.db", "--epochs", number}),
              concat("--epochs: a whole number from -9223372036854775808 to 9223372036854775807 is "
                     "needed (got ",
                     number,
                     ")"));
    EXPECT_THAT(refused({"a.db", "--limit", number}), HasSubstr("--limit: a whole number from"));
  }
  EXPECT_THAT(refused({"a.db", "--seed", "18446744073709551616"}),
              HasSubstr("from 0 to 18446744073709551615 is needed"));
  EXPECT_THAT(refused({"a.db", "--seed", "-1"}), HasSubstr("(got -1)"));
}

TEST(Parse, RefusesWhatIsNoNumber) {
  for (const char* text : {"1.5", "x", "3x", "0x10", "1e3"})
    EXPECT_THAT(refused({"a.db", "--epochs", text}),
                HasSubstr(concat("--epochs: a whole number is needed (got ", text, ")")));
  EXPECT_THAT(refused({"a.db", "--lr", "fast"}), HasSubstr("--lr: a number is needed (got fast)"));
  EXPECT_THAT(refused({"a.db", "--lr", "1e400"}), HasSubstr("--lr: a number of at most 1.8e308"));
  EXPECT_THAT(refused({"a.db", "--lr", "nan"}), HasSubstr("--lr: a finite number is needed"));
  EXPECT_THAT(refused({"a.db", "--lr", "-inf"}), HasSubstr("--lr: a finite number is needed"));
}

TEST(Parse, SaysInItsOwnWordsWhatIsWrongWithALine) {
  EXPECT_EQ(refused({"a.db", "--epochs", "1", "--epochs=2"}),
            "--epochs: it is given once (got 1 and 2)\nhint: see `muster study show --help`");
  EXPECT_EQ(refused({"a.db", "--epochs"}),
            "--epochs: it needs a value: --epochs N\nhint: see `muster study show --help`");
  EXPECT_THAT(refused({"a.db", "--epochs", "--json"}), HasSubstr("it needs a value"));
  EXPECT_THAT(refused({"a.db", "--json=maybe"}),
              HasSubstr("--json: it takes no value (got maybe)"));
  EXPECT_EQ(
      refused({"--json"}),
      "muster study show without STORAGE: STORAGE is the study's file\nhint: see `muster study "
      "show --help`");
  EXPECT_THAT(refused({"a.db", "b.db"}), HasSubstr("muster study show does not take \"b.db\""));
  EXPECT_THAT(refused({"a.db", "--epoch", "2"}), HasSubstr("did you mean --epochs?"));
}

TEST(Parse, ReadsSpansOfTime) {
  double interval_s = 1;
  std::optional<double> budget_s;
  const auto app = make_app("muster x", "About.", "");
  add_duration(*app, "--interval", interval_s, "between looks")->capture_default_str();
  add_duration(*app, "--budget", budget_s, "of all");
  EXPECT_THAT(app->help(), HasSubstr("  --interval TIME           between looks [1]\n"));
  std::ostringstream out, err;
  Console console(out, err, false, false);
  const std::vector<std::string> words = {"--interval", "250ms", "--budget=1h30m"};
  EXPECT_EQ(parse(*app, words, console), std::nullopt);
  EXPECT_EQ(interval_s, 0.25);
  EXPECT_EQ(budget_s, 5400);
  EXPECT_EQ(test::refusal_of([] { read_duration("--budget", ""); }),
            "--budget: a span of time is needed: 90s, 1h30m, or a number of seconds (got \"\")\n"
            "hint: units are d, h, m, s and ms, the longer ones first");
}

TEST(Parse, AnOptionWhoseValueIsTimeIsASpanOfIt) {
  struct {
    std::string_view name = "max_time", value = "TIME", help = "of all";
    bool show_default = false;
  } const info;
  double seconds = 0;
  const auto app = make_app("muster x", "About.", "");
  add_option_flag(*app, info, seconds);
  EXPECT_THAT(app->help(), HasSubstr("  --max-time TIME"));
  std::ostringstream out, err;
  Console console(out, err, false, false);
  const std::vector<std::string> words = {"--max-time", "1h30m"};
  EXPECT_EQ(parse(*app, words, console), std::nullopt);
  EXPECT_EQ(seconds, 5400);
}

TEST(Parse, ShowsDefaultsInTheHelp) {
  Parsed values;
  const auto app = make_app("muster x", "About.", "");
  add_value(*app, "--epochs", values.epochs, "times")->type_name("N")->capture_default_str();
  add_value(*app, "--lr", values.lr, "rate")->type_name("X")->capture_default_str();
  EXPECT_THAT(app->help(), HasSubstr("  --epochs N                times [3]\n"));
  EXPECT_THAT(app->help(), HasSubstr("  --lr X                    rate [0.1]\n"));
}

}  // namespace
}  // namespace muster::program
