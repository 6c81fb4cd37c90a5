// TPE's parts against those of Optuna 5.0.0, from tests/golden/tpe/golden.json.
#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/json.h"
#include "muster/tune/search/tpe/parzen.h"
#include "muster/tune/search/tpe/ranking.h"
#include "muster/tune/search/tpe/subspaces.h"

#include "tests/support/golden.h"
#include "tests/support/numbers.h"

namespace muster::tune {
namespace {

using test::kInf;
using test::kNan;
using Row = std::vector<double>;

const Json& tpe_golden() {
  static const Json json = test::read_golden("tpe");
  return json;
}

std::vector<ParzenAxis> axes_of(const Json& one) {
  std::vector<ParzenAxis> axes;
  for (const std::string text : one.at("axes"))
    axes.push_back(parzen_axis(Domain::parse(text, "test").distribution()));
  return axes;
}

ParzenEstimator estimator_of(const Json& one) {
  ParzenEstimator estimator(axes_of(one), {.prior_weight = one.at("prior_weight")});
  int64_t age = 0;
  for (const Json& row : one.at("observations")) estimator.insert(age++, row.get<Row>());
  return estimator;
}

Candidates candidates_of(const Json& one) {
  Candidates out{.count = one.at("candidates").size(),
                 .numbers = std::vector<Row>(one.at("axes").size())};
  for (const Json& row : one.at("candidates")) {
    for (size_t d = 0; d < row.size(); ++d) out.numbers[d].push_back(row[d]);
  }
  return out;
}

TEST(TpeGolden, LogDensitiesAreOptunas) {
  for (const Json& one : tpe_golden().at("densities")) {
    ParzenEstimator estimator = estimator_of(one);
    const auto ours = estimator.log_density(candidates_of(one));
    const auto theirs = one.at("log_densities").get<Row>();
    ASSERT_EQ(ours.size(), theirs.size());
    for (size_t c = 0; c < ours.size(); ++c) {
      EXPECT_NEAR(ours[c], theirs[c], 1e-10)
          << estimator.size() << " observations of " << one.at("axes").dump() << ", candidate "
          << one.at("candidates")[c].dump();
    }
  }
}

TEST(TpeGolden, LogDensitiesAreThoseOfTheObservationsThatAreLeftInAnyOrder) {
  for (const Json& one : tpe_golden().at("densities")) {
    const auto rows = one.at("observations").get<std::vector<Row>>();
    ParzenEstimator estimator(axes_of(one), {.prior_weight = one.at("prior_weight")});
    const auto points = candidates_of(one);
    const Row other(one.at("axes").size(), 1);
    for (size_t i = rows.size(); i-- > 0;) {
      estimator.insert(static_cast<int64_t>(2 * i), rows[i]);
      estimator.insert(static_cast<int64_t>(2 * i + 1), other);
      if (i % 3 == 0) estimator.log_density(points);
      estimator.erase(static_cast<int64_t>(2 * i + 1));
      if (i % 4 == 0) {
        estimator.log_density(points);
        estimator.erase(static_cast<int64_t>(2 * i));
        estimator.insert(static_cast<int64_t>(2 * i), rows[i]);
      }
    }
    EXPECT_EQ(estimator.size(), rows.size());
    const auto ours = estimator.log_density(points);
    const auto theirs = one.at("log_densities").get<Row>();
    for (size_t c = 0; c < ours.size(); ++c) EXPECT_NEAR(ours[c], theirs[c], 1e-10);
  }
}

TEST(TpeGolden, DrawsHaveTheQuantilesOfOptunas) {
  const auto count = tpe_golden().at("draws").get<size_t>();
  // Of the difference of two shares, four standard deviations.
  const double bound = 4 * std::sqrt(0.5 / static_cast<double>(count));
  for (const Json& one : tpe_golden().at("quantiles")) {
    ParzenEstimator estimator = estimator_of(one);
    RandomStream random(3, 4);
    const Row open(one.at("axes").size(), kNan);
    auto drawn = estimator.draw(count, open, random);
    for (size_t d = 0; d < open.size(); ++d) {
      const std::string axis = one.at("axes")[d];
      auto& numbers = drawn.numbers[d];
      std::ranges::sort(numbers);
      const auto theirs = one.at("quantiles")[d].get<Row>();
      if (axis.starts_with("choice")) {
        for (size_t k = 0; k < theirs.size(); ++k) {
          const auto ours =
              static_cast<double>(std::ranges::count(numbers, static_cast<double>(k)));
          EXPECT_NEAR(ours / static_cast<double>(count), theirs[k], bound) << axis << ' ' << k;
        }
        continue;
      }
      for (size_t q = 0; q < theirs.size(); ++q) {
        const double wanted = static_cast<double>(q + 1) / static_cast<double>(theirs.size() + 1);
        // A number on a step has a range of shares.
        const double slack = 1e-8 * std::max(1.0, std::abs(theirs[q]));
        const double low = static_cast<double>(
            std::ranges::lower_bound(numbers, theirs[q] - slack) - numbers.begin());
        const double high = static_cast<double>(
            std::ranges::upper_bound(numbers, theirs[q] + slack) - numbers.begin());
        EXPECT_LE(low / static_cast<double>(count), wanted + bound) << axis << ' ' << theirs[q];
        EXPECT_GE(high / static_cast<double>(count), wanted - bound) << axis << ' ' << theirs[q];
      }
    }
  }
}

TEST(TpeGolden, TheGoodTrialsAreOptunas) {
  for (const Json& one : tpe_golden().at("splits")) {
    TrialRanking ranking;
    int64_t number = -1;
    for (const Json& trial : one.at("trials")) {
      ++number;
      const std::string kind = trial.at("kind");
      const bool has_value = !trial.at("value").is_null();
      const double value = has_value ? trial.at("value").get<double>() : kInf;
      if (kind == "complete") ranking.add_complete(number, -value);
      if (kind == "pruned") ranking.add_pruned(number, trial.at("step"), has_value ? -value : kNan);
      if (kind == "infeasible") ranking.add_infeasible(number, trial.at("violation"));
    }
    EXPECT_EQ(ranking.best(good_count(ranking.size(), 0.1, 25)),
              one.at("good").get<std::vector<int64_t>>())
        << one.at("trials").size() << " trials";
  }
  for (const Json& pair : tpe_golden().at("good_counts"))
    EXPECT_EQ(good_count(pair[0], 0.1, 25), pair[1].get<size_t>()) << pair.dump();
}

TEST(TpeGolden, GroupsAreOptunas) {
  for (const Json& one : tpe_golden().at("groups")) {
    Subspaces subspaces(std::vector<bool>(6, true), Together::kGroups);
    std::vector<size_t> all;
    for (const Json& seen : one.at("seen")) {
      Point point(6, kNan);
      for (const size_t d : seen) point[d] = 0, all.push_back(d);
      subspaces.add(point);
    }
    auto ours = subspaces.all();
    // What no trial had is by itself.
    std::erase_if(ours,
                  [&](const auto& group) { return std::ranges::find(all, group[0]) == all.end(); });
    std::ranges::sort(ours);
    EXPECT_EQ(ours, one.at("groups").get<std::vector<std::vector<size_t>>>()) << one.dump();
  }
}

}  // namespace
}  // namespace muster::tune
