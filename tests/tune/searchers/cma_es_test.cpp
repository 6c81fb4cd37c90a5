#include "muster/tune/searchers/cma_es.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/tune/search/cma/cma.h"
#include "muster/tune/search/draw_stream.h"
#include "muster/tune/search/searcher.h"

#include "tests/support/error_of.h"
#include "tests/support/numbers.h"
#include "tests/tune/searchers/spaces.h"

namespace muster::tune {
namespace {

using test::kNan;
using test::refusal_of;
using ::testing::HasSubstr;

/// A study in which `slots` trials are under way; the last of them to start ends first where
/// `backwards`.
struct CmaStudy {
  CmaStudy(const Space& its_space, const std::string& spec = "cma_es", uint64_t seed = 1)
      : space(its_space), searcher(make_searcher(spec, {.space = space, .seed = seed})) {}

  Point ask() {
    const auto suggestion = searcher->suggest(next, Point(space.dimensions().size(), kNan));
    EXPECT_EQ(suggestion.kind, Searcher::Suggestion::kPoint);
    reason = suggestion.reason;
    searcher->suggested(next, space.with_conditions(suggestion.point), suggestion.memo);
    points.push_back(suggestion.point);
    return points[static_cast<size_t>(next++)];
  }
  void tell(int64_t number, double score, TrialState state = TrialState::kComplete) {
    searcher->told({.number = number,
                    .point = points[static_cast<size_t>(number)],
                    .state = state,
                    .score = score});
  }
  /// The best score of `trials` trials.
  double run(int64_t trials,
             const std::function<double(const Point&)>& score,
             size_t slots = 1,
             bool backwards = false) {
    double best = -HUGE_VAL;
    std::deque<int64_t> running;
    for (const int64_t end = next + trials; next < end || !running.empty();) {
      while (next < end && running.size() < slots) running.push_back(next), ask();
      const int64_t number = backwards ? running.back() : running.front();
      backwards ? running.pop_back() : running.pop_front();
      const double result = score(points[static_cast<size_t>(number)]);
      best = std::max(best, result);
      tell(number, result);
    }
    return best;
  }

  const Space& space;
  std::unique_ptr<Searcher> searcher;
  std::vector<Point> points;
  std::string reason;
  int64_t next = 0;
};

double bowl_at_a_third(const Point& point) {
  double score = 0;
  for (const double x : point) score -= (x - 1. / 3) * (x - 1. / 3);
  return score;
}

TEST(CmaEs, MovesToTheBestPlaceAndShrinks) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    CmaStudy study(unit_square(), "cma_es", seed);
    EXPECT_GT(study.run(300, &bowl_at_a_third), -1e-6) << seed;
  }
}

TEST(CmaEs, FindsWholeNumbersThatATinyDistributionWouldNeverTryAgain) {
  const Space space = {{"layers", randint(0, 40)},
                       {"width", qrandint(0, 100, 10)},
                       {"flag", randint(0, 2)},
                       {"lr", loguniform(1e-4, 1)}};
  for (uint64_t seed = 0; seed < 5; ++seed) {
    CmaStudy study(space, "cma_es", seed);
    const double best = study.run(500, [](const Point& p) {
      const double lr = std::log10(p[3]) + 3;
      return -(std::abs(p[0] - 33) / 40 + std::abs(p[1] - 20) / 100 + (p[2] == 0) + lr * lr);
    });
    EXPECT_GT(best, -1e-3) << seed;
  }
}

/// How often each value was suggested by `studies` studies' first trials.
std::vector<double> first_values(const Space& space, const std::string& spec, int studies) {
  std::vector<double> counts;
  for (int seed = 0; seed < studies; ++seed) {
    CmaStudy study(space, spec, static_cast<uint64_t>(seed));
    const auto value = static_cast<size_t>(study.ask()[0]);
    if (value >= counts.size()) counts.resize(value + 1);
    counts[value] += 1. / studies;
  }
  return counts;
}

TEST(CmaEs, ItStartsWithASixthOfTheValuesOfAWholeNumberAsItsDeviation) {
  // Value k of five has (k/5, (k+1)/5]; the ends have what lies beyond them, too.
  const Space space = {{"n", randint(0, 5)}, {"x", uniform(0, 1)}};
  const auto share_below = [](double place) {
    return 0.5 * std::erfc((0.5 - place) * 6 / std::sqrt(2.0));
  };
  const auto counts = first_values(space, "cma_es", 4000);
  ASSERT_EQ(counts.size(), 5U);
  for (size_t k = 0; k < 5; ++k) {
    const double low = k == 0 ? 0 : share_below(static_cast<double>(k) / 5);
    const double high = k == 4 ? 1 : share_below(static_cast<double>(k + 1) / 5);
    EXPECT_NEAR(counts[k], high - low, 4 * std::sqrt(0.25 / 4000)) << k;
  }
}

TEST(CmaEs, AMemberCountsWhereItsValueIs) {
  // Of one generation, the update by hand of cmaes' rates: the mean is the weighted mean of the
  // better half's values, each in the middle of its part.
  const Space space = {{"n", randint(0, 4)}, {"x", uniform(0, 1)}};
  CmaStudy study(space, "cma_es:sigma=1e-3");  // all are at 0.5, the border of values 1 and 2
  Cma by_hand({.mean = {0.5, 0.5},
               .sigma = 1e-3,
               .axes = {{.low = 0.125, .high = 0.875, .step = 0.25}, {.low = 0, .high = 1}},
               .population = 0});
  std::vector<CmaMember> members;
  for (int64_t number = 0; number < by_hand.population(); ++number) {
    const Point point = study.ask();
    EXPECT_TRUE(point[0] == 1 || point[0] == 2) << point[0];
    members.push_back({.raw = {(point[0] + 0.5) / 4, point[1]}, .value = -point[1]});
  }
  for (int64_t number = 0; number < by_hand.population(); ++number)
    study.tell(number, study.points[static_cast<size_t>(number)][1]);
  by_hand.tell(members);
  // The next one is drawn by what came of it.
  DrawStream draws(1, 0xC3A, study.next);
  const auto places = by_hand.tried(by_hand.sample(draws));
  const Point next = study.ask();
  EXPECT_EQ(next[0], std::floor(places[0] * 4));
  EXPECT_NEAR(next[1], places[1], 1e-9);
}

TEST(CmaEs, AHugeWholeNumberIsSearchedAsContinuousOnes) {
  const Space space = {{"n", randint(0, int64_t{1} << 52)}, {"x", uniform(0, 1)}};
  CmaStudy study(space);
  const double scale = 0x1p-52;
  EXPECT_GT(study.run(300, [&](const Point& p) { return -std::abs(p[0] * scale - 0.3); }), -1e-3);
}

TEST(CmaEs, DrawsCategoriesAndWhatIsConditionalAsRandomDoes) {
  const Space space({{.name = "x", .domain = uniform(0, 1)},
                     {.name = "kind", .domain = choice({"a", "b", "c"})},
                     {.name = "z", .domain = uniform(0, 1), .when = "kind == 'a'"}});
  CmaStudy study(space);
  for (int64_t number = 0; number < 40; ++number) {
    const Point point = study.ask();
    const Point random = draw_open(space, Point(3, kNan), 1, number);
    EXPECT_EQ(point[1], random[1]);
    EXPECT_EQ(point[2], random[2]);
    study.tell(number, -point[0]);
  }
}

TEST(CmaEs, ASpaceWithoutANumberThatEveryTrialHasIsRefused) {
  const auto refusal = [](const Space& space) {
    return refusal_of([&] { make_searcher("cma_es", {.space = space}); });
  };
  EXPECT_THAT(refusal({{"kind", choice({"a", "b"})}}), HasSubstr("this space has none"));
  EXPECT_THAT(
      refusal({{"x", uniform(0, 1)}, {"f", sample_from([](const Resolved&) { return 1; })}}),
      HasSubstr("cannot from C++ functions"));
  EXPECT_THAT(refusal_of([] { make_searcher("cma_es:population=1", {.space = unit_square()}); }),
              HasSubstr("population is 0 or 2"));
  EXPECT_EQ(cma_es({.population = 12}), "cma_es:population=12");
}

TEST(CmaEs, AGenerationEndsWithPopulationResultsWhoeverIsStillUnderWay) {
  CmaStudy study(unit_square());  // population 6
  for (int i = 0; i < 13; ++i) {
    study.ask();
    EXPECT_EQ(study.reason, "generation 0") << "nobody waits";
  }
  for (const int64_t number : {12, 0, 7, 3, 5}) study.tell(number, static_cast<double>(number));
  study.ask();
  EXPECT_EQ(study.reason, "generation 0");
  study.tell(9, 1);
  study.ask();
  EXPECT_EQ(study.reason, "generation 1");
  for (const int64_t late : {1, 2, 4, 6, 8, 10}) study.tell(late, 1);
  study.ask();
  EXPECT_EQ(study.reason, "generation 2") << "late ones count in the generation that is open then";
}

TEST(CmaEs, LearnsFromManyWorkersInWhateverOrderTheyEnd) {
  for (const bool backwards : {false, true}) {
    for (const size_t slots : {4, 30}) {
      CmaStudy study(unit_square());
      EXPECT_GT(study.run(600, &bowl_at_a_third, slots, backwards), -1e-4)
          << slots << (backwards ? " backwards" : "");
    }
  }
}

TEST(CmaEs, FailedTrialsRankLastAndAGenerationOfThemTeachesNothing) {
  CmaStudy study(unit_square());
  for (int64_t number = 0; number < 30; ++number) {
    study.ask();
    study.tell(number, kNan, TrialState::kFailed);
  }
  study.ask();
  EXPECT_EQ(study.reason, "generation 0");
  // Half of the space fails: the distribution stays on the other side.
  const double best = [] {
    CmaStudy half(unit_square());
    double found = -HUGE_VAL;
    for (int64_t number = 0; number < 300; ++number) {
      const Point point = half.ask();
      const bool fails = point[0] > 0.3;
      half.tell(number,
                fails ? kNan : bowl_at_a_third(point),
                fails ? TrialState::kFailed : TrialState::kComplete);
      if (!fails) found = std::max(found, bowl_at_a_third(point));
    }
    return found;
  }();
  EXPECT_NEAR(best, -1. / 900, 1e-4);  // at x = 0.3
}

TEST(CmaEs, FailedTrialsThatAreIgnoredAreAsIfTheyHadNotBeen) {
  CmaStudy study(unit_square(), "cma_es:failed=ignore");
  for (int64_t number = 0; number < 12; ++number) {
    study.ask();
    EXPECT_EQ(study.reason, number < 11 ? "generation 0" : "generation 1");
    if (number % 2 == 0 || number > 9)
      study.tell(number, 1);
    else
      study.tell(number, kNan, TrialState::kFailed);
  }
}

TEST(CmaEs, StoppedAndPausedTrialsTeachByTheirDepth) {
  // All are stopped at once but at a depth that tells how good they are.
  CmaStudy stopped(unit_square()), paused(unit_square());
  double last = 0;
  for (int64_t number = 0; number < 300; ++number) {
    const Point point = stopped.ask();
    const auto depth = static_cast<int64_t>(1e6 * (1 + bowl_at_a_third(point)));
    last = bowl_at_a_third(point);
    stopped.searcher->told({.number = number,
                            .point = point,
                            .state = TrialState::kPruned,
                            .score = 0,
                            .step = depth});
    EXPECT_EQ(paused.ask(), point);
    paused.searcher->reported(number, depth, 0);
    paused.searcher->paused(number);
  }
  EXPECT_GT(last, -0.01);
}

TEST(CmaEs, OneThatWasOnlyToldEqualsOneThatWasAsked) {
  const Space space = {{"x", uniform(0, 1)}, {"n", randint(0, 5)}, {"z", randn(0, 1)}};
  CmaStudy asked(space);
  const auto told = make_searcher("cma_es", {.space = space, .seed = 1});
  std::deque<std::pair<int64_t, std::string>> running;
  for (int64_t number = 0; number < 200; ++number) {
    const auto suggestion = asked.searcher->suggest(number, Point(3, kNan));
    // Of an answer that comes late, others have been told meanwhile.
    if (number % 3 == 0 && running.size() > 4) {
      const int64_t over = running.front().first;
      running.pop_front();
      for (Searcher* searcher : {asked.searcher.get(), told.get()}) {
        searcher->told({.number = over,
                        .point = asked.points[static_cast<size_t>(over)],
                        .score = bowl_at_a_third(asked.points[static_cast<size_t>(over)])});
      }
    }
    asked.points.push_back(suggestion.point);
    for (Searcher* searcher : {asked.searcher.get(), told.get()})
      searcher->suggested(number, suggestion.point, suggestion.memo);
    running.emplace_back(number, suggestion.memo);
  }
  EXPECT_EQ(asked.searcher->suggest(200, Point(3, kNan)).point,
            told->suggest(200, Point(3, kNan)).point);
  EXPECT_EQ(asked.searcher->suggest(200, Point(3, kNan)).reason,
            told->suggest(200, Point(3, kNan)).reason);
}

TEST(CmaEs, StartsElsewhereWithTwiceThePopulationWhenNothingMoreIsToBeFound) {
  CmaStudy study(unit_square());
  const auto flat = [](const Point&) { return 1.0; };
  // A constant is given up after 10 + 30 n / population generations, and one more, of 6.
  study.run(6 * 21, flat);
  study.run(12, flat);
  EXPECT_EQ(study.reason, "generation 21") << "the population is 12 now";
  study.run(1, flat);
  EXPECT_EQ(study.reason, "generation 22");
}

TEST(CmaEs, StartsAtTheBestTrialThatItWasGiven) {
  CmaStudy study(unit_square(), "cma_es:sigma=0.01");
  study.ask();  // of the first start; one of the members all the same
  for (const auto& [number, x] : {std::pair{-1, 0.2}, std::pair{1000, 0.8}, std::pair{1001, 0.5}}) {
    study.searcher->told(
        {.number = number, .point = {x, x}, .score = -std::abs(x - 0.8), .step = 1});
  }
  study.searcher->told({.number = 1002, .point = {0.1, 0.1}, .state = TrialState::kFailed});
  study.searcher->told({.number = 1003, .point = {kNan, 0.1}, .score = 1});
  for (const double x : study.ask()) EXPECT_NEAR(x, 0.8, 0.05);
  study.tell(1, 0);
  study.searcher->told({.number = 1004, .point = {0.3, 0.3}, .score = 2, .step = 1});
  for (const double x : study.ask()) EXPECT_NEAR(x, 0.8, 0.05) << "it has begun";
}

TEST(CmaEs, BearsConstantsDuplicatesInfinitiesAndFiftyDimensions) {
  std::vector<Parameter> parameters;
  for (int i = 0; i < 50; ++i)
    parameters.push_back({.name = "x" + std::to_string(i),
                          .domain = i % 3 == 0 ? randint(0, 3) : uniform(-5, 5),
                          .when = ""});
  parameters.push_back({.name = "one", .domain = randint(4, 5), .when = ""});
  parameters.push_back({.name = "same", .domain = choice({"a"}), .when = ""});
  const Space space(parameters);
  int64_t n = 0;
  for (const auto& score : std::vector<std::function<double(const Point&)>>{
           [](const Point&) { return 0.0; },
           [&](const Point&) { return ++n % 2 == 0 ? kNan : -HUGE_VAL; },
           [](const Point& p) { return p[0] > 1 ? HUGE_VAL : p[0]; },
           &bowl_at_a_third}) {
    CmaStudy study(space);
    study.run(400, score, 7);
  }
  CmaStudy pending(space);
  for (int i = 0; i < 3000; ++i) pending.ask();
  for (int64_t i = 0; i < 3000; ++i) pending.tell(i, bowl_at_a_third(pending.points[i]));
  for (const double x : pending.ask()) EXPECT_TRUE(std::isfinite(x));
}

TEST(CmaEs, ASpaceOfWhichNothingVariesIsDrawn) {
  const Space space = {{"one", randint(4, 5)}, {"same", choice({"a"})}};
  CmaStudy study(space);
  EXPECT_EQ(study.ask(), (Point{4, 0}));
  study.tell(0, 1);
}

}  // namespace
}  // namespace muster::tune
