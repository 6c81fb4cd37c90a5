// --lr find: the rule, against tests/golden/lr_find.
#include "muster/train/plan/lr_search.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/json.h"
#include "muster/train/record/lr_search_files.h"

#include "tests/support/error_of.h"
#include "tests/support/golden.h"

namespace muster {
namespace {

using test::refusal_of;
using ::testing::HasSubstr;
using train::LrSearch;

TEST(LrSearch, FollowsLightningsRule) {
  const Json golden = test::read_golden("lr_find");
  for (const Json& expected : golden.at("cases")) {
    LrSearch search(
        {.min = expected.at("min"), .max = expected.at("max"), .steps = expected.at("steps")});
    for (const Json& loss : expected.at("losses")) {
      if (search.is_over()) break;
      search.add(loss);
    }
    ASSERT_TRUE(search.is_over());
    const auto rates = expected.at("rates").get<std::vector<double>>();
    ASSERT_EQ(search.points().size(), rates.size());
    for (size_t i = 0; i < rates.size(); ++i) {
      EXPECT_NEAR(search.points()[i].lr / rates[i], 1, 1e-12);
      EXPECT_NEAR(search.points()[i].smoothed, expected.at("smoothed")[i].get<double>(), 1e-12);
    }
    EXPECT_EQ(search.suggestion(), expected.at("at").get<size_t>());
  }
}

TEST(LrSearch, EndsWithALossThatIsNotFinite) {
  LrSearch search({});
  for (int step = 0; step < 20; ++step) search.add(1.0 - 0.01 * step);
  EXPECT_FALSE(search.is_over());
  search.add(std::nan(""));
  EXPECT_TRUE(search.is_over());
  EXPECT_EQ(search.points().size(), 20U);
}

TEST(LrSearch, NeedsSomeSteps) {
  LrSearch search({});
  for (int step = 0; step < 12; ++step) search.add(1);
  search.diverged();
  EXPECT_EQ(search.suggestion(), std::nullopt);
  EXPECT_THAT(refusal_of([&] { train::found_lr(search); }),
              HasSubstr("12 before the loss diverged"));
}

TEST(LrSearch, ReadsItsParametersAndRefusesOthers) {
  const train::LrSearchOptions options =
      train::parse_lr_search("find:min=1e-6,max=0.5,steps=50,stop=3");
  EXPECT_EQ(options.min, 1e-6);
  EXPECT_EQ(options.max, 0.5);
  EXPECT_EQ(options.steps, 50);
  EXPECT_EQ(options.stop, 3);
  for (const char* bad : {"find:min=0",
                          "find:min=1",
                          "find:steps=5",
                          "find:stop=1",
                          "find:from=2",
                          "finder",
                          "find:max=x"})
    EXPECT_THAT(refusal_of([&] { train::parse_lr_search(bad); }), HasSubstr("--lr")) << bad;
}

TEST(LrSearch, SaysWhereTheSteepestPlaceMayBeChance) {
  LrSearch noisy({.steps = 40}), clear({.steps = 40});
  for (int step = 0; step < 40; ++step) {
    const double noise = 0.1 * std::sin(step * 2.7);
    noisy.add(1 + noise);
    clear.add(1 + noise - (step > 20 ? 0.5 : 0));
  }
  EXPECT_FALSE(train::found_lr(noisy).falls);
  EXPECT_TRUE(train::found_lr(clear).falls);
}

TEST(LrSearch, WritesATableAndAPicture) {
  LrSearch search({.steps = 30});
  while (!search.is_over()) {
    const auto step = static_cast<double>(search.points().size());
    search.add(2 / (1 + std::exp((step - 20) / 2)) + 0.1);
  }
  const train::LrFound found = train::found_lr(search);
  EXPECT_TRUE(found.falls);
  const std::string csv = train::lr_search_csv(found);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 31);
  EXPECT_THAT(csv, ::testing::StartsWith("lr,loss,smoothed_loss,suggested\n1e-08,"));
  const std::string svg = train::lr_search_svg(found, "a <model>");
  EXPECT_THAT(svg, HasSubstr("a &lt;model&gt;"));
  EXPECT_THAT(svg, HasSubstr("taken: "));
}

}  // namespace
}  // namespace muster
