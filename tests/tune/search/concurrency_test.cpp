#include "muster/tune/search/concurrency.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace muster::tune {
namespace {

using test::refusal_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Suggestion = Searcher::Suggestion;

/// Suggests its number and writes down what it is told.
class Recorder final : public Searcher {
 public:
  explicit Recorder(std::vector<int64_t>& told) : told_(told) {}
  Suggestion suggest(int64_t number, const Point& /*partial*/) override {
    if (number >= 6) return {.kind = Suggestion::kFinished};
    return {.point = {static_cast<double>(number)}};
  }
  void told(const FinishedTrial& trial) override { told_.push_back(trial.number); }

 private:
  std::vector<int64_t>& told_;
};

struct Limited {
  explicit Limited(int64_t max_concurrent, bool batch)
      : searcher(limit_concurrency(std::make_unique<Recorder>(told), max_concurrent, batch)) {}

  Suggestion::Kind ask(int64_t number) {
    const Suggestion suggestion = searcher->suggest(number, {});
    if (suggestion.kind == Suggestion::kPoint) searcher->suggested(number, suggestion.point, "");
    return suggestion.kind;
  }
  void tell(int64_t number) { searcher->told({.number = number}); }

  std::vector<int64_t> told;
  std::unique_ptr<Searcher> searcher;
};

TEST(LimitConcurrency, WaitsWhileSoManyTrialsAreUnderWay) {
  Limited limited(2, false);
  EXPECT_EQ(limited.ask(0), Suggestion::kPoint);
  EXPECT_EQ(limited.ask(1), Suggestion::kPoint);
  EXPECT_EQ(limited.ask(2), Suggestion::kWait);
  limited.tell(1);
  EXPECT_EQ(limited.ask(2), Suggestion::kPoint);
  EXPECT_EQ(limited.ask(3), Suggestion::kWait);
  EXPECT_THAT(limited.told, ElementsAre(1));
}

TEST(LimitConcurrency, ABatchIsToldWhenAllOfItHasFinished) {
  Limited limited(3, true);
  for (const int64_t number : {0, 1, 2}) EXPECT_EQ(limited.ask(number), Suggestion::kPoint);
  limited.tell(2);
  limited.tell(0);
  EXPECT_THAT(limited.told, ElementsAre());
  EXPECT_EQ(limited.ask(3), Suggestion::kWait) << "the places are those of the batch";
  limited.tell(1);
  EXPECT_THAT(limited.told, ElementsAre(2, 0, 1));
  EXPECT_EQ(limited.ask(3), Suggestion::kPoint);
}

TEST(LimitConcurrency, ABatchThatWasNotFilledEndsWithItsLastTrial) {
  // As ray 2.60: what has finished when nothing is under way is the batch.
  Limited limited(3, true);
  limited.ask(0);
  limited.ask(1);
  limited.tell(1);
  limited.tell(0);
  EXPECT_THAT(limited.told, ElementsAre(1, 0));
}

TEST(LimitConcurrency, TheEndOfTheSearchFillsNoPlace) {
  Limited limited(1, false);
  EXPECT_EQ(limited.ask(6), Suggestion::kFinished);
  EXPECT_EQ(limited.ask(0), Suggestion::kPoint);
}

TEST(LimitConcurrency, TrialsOfOthersArePassedOn) {
  Limited limited(2, true);
  limited.ask(0);
  limited.tell(77);
  EXPECT_THAT(limited.told, ElementsAre(77));
}

TEST(LimitConcurrency, EverySearcherTakesItAsParameters) {
  const Space space = {{"x", uniform(0, 1)}};
  const auto searcher = make_searcher("random:max_concurrent=1", {.space = space});
  const Point open(1, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(searcher->suggest(0, open).kind, Suggestion::kPoint);
  EXPECT_EQ(searcher->suggest(0, open).kind, Suggestion::kPoint) << "asking takes no place";
  searcher->suggested(0, {0.5}, "");
  EXPECT_EQ(searcher->suggest(1, open).kind, Suggestion::kWait);
  const auto refusal = [&](const std::string& spec) {
    return refusal_of([&] { make_searcher(spec, {.space = space}); });
  };
  EXPECT_THAT(refusal("random:max_concurrent=-1"), HasSubstr("at least 1"));
  EXPECT_THAT(refusal("random:max_concurrent=x"),
              HasSubstr("searcher random parameter \"max_concurrent\""));
  EXPECT_THAT(refusal("random:batch=true"), HasSubstr("max_concurrent=4"));
  EXPECT_THAT(refusal("random:max=1"), HasSubstr("no parameter \"max\""));
  EXPECT_THAT(refusal("randon"), HasSubstr("did you mean \"random\""));
}

}  // namespace
}  // namespace muster::tune
