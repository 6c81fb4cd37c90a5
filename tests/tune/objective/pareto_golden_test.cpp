// Fronts, crowding, hypervolumes and splits against those of Optuna 5.0.0, from
// tests/golden/pareto/golden.json.
#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>

#include "muster/base/json.h"
#include "muster/tune/objective/domination.h"
#include "muster/tune/objective/hypervolume.h"
#include "muster/tune/search/tpe/ranking.h"
#include "muster/tune/space/value.h"

#include "tests/support/golden.h"
#include "tests/support/numbers.h"
#include "tests/tune/golden_values.h"

namespace muster::tune {
namespace {

using test::kInf;
using test::number_of;

const Json& pareto_golden() {
  static const Json json = test::read_golden("pareto");
  return json;
}

Losses row_of(const Json& json) {
  Losses row;
  for (const Json& number : json) row.push_back(number_of(number));
  return row;
}

std::vector<Losses> rows_of(const Json& json) {
  std::vector<Losses> rows;
  for (const Json& row : json) rows.push_back(row_of(row));
  return rows;
}

/// As losses of what was reported.
std::vector<Losses> losses_of(const Json& one) {
  std::vector<Losses> rows = rows_of(one.at("values"));
  for (Losses& row : rows) {
    for (size_t i = 0; i < row.size(); ++i)
      row[i] = -score_of(row[i], parse_mode(one.at("modes")[i].get<std::string>()));
  }
  return rows;
}

TEST(ParetoGolden, FrontsAreOptunas) {
  for (const Json& one : pareto_golden().at("ranks")) {
    const auto losses = rows_of(one.at("losses"));
    const auto violations = one.at("violations").get<std::vector<double>>();
    using Ranks = std::vector<int64_t>;
    EXPECT_EQ(front_ranks(losses), one.at("ranks").get<Ranks>()) << one.dump();
    EXPECT_EQ(front_ranks(losses, violations), one.at("constrained").get<Ranks>()) << one.dump();
    EXPECT_EQ(front_ranks(losses, one.at("enough").get<size_t>()), one.at("first").get<Ranks>())
        << one.dump();
  }
}

TEST(ParetoGolden, CrowdingDistancesAreOptunas) {
  for (const Json& one : pareto_golden().at("crowding")) {
    const auto ours = crowding_distances(rows_of(one.at("values")));
    const auto theirs = row_of(one.at("distances"));
    ASSERT_EQ(ours.size(), theirs.size());
    for (size_t i = 0; i < ours.size(); ++i) {
      if (std::isinf(theirs[i])) {
        EXPECT_EQ(ours[i], theirs[i]) << one.dump();
      } else {
        EXPECT_NEAR(ours[i], theirs[i], 1e-12) << one.dump();
      }
    }
  }
}

TEST(ParetoGolden, WhoLivesIsOptunasChoice) {
  for (const Json& one : pareto_golden().at("elite")) {
    const auto violations = one.at("violations").get<std::vector<double>>();
    EXPECT_EQ(
        elite(rows_of(one.at("values")), losses_of(one), violations, one.at("count").get<size_t>()),
        one.at("elite").get<std::vector<size_t>>())
        << one.dump();
  }
}

TEST(ParetoGolden, DominationWithConstraintsIsOptunas) {
  for (const Json& one : pareto_golden().at("dominates")) {
    const auto violations = one.at("violations").get<std::vector<double>>();
    EXPECT_EQ(
        dominates_feasibly(row_of(one.at("a")), violations[0], row_of(one.at("b")), violations[1]),
        one.at("dominates").get<bool>())
        << one.dump();
  }
}

TEST(ParetoGolden, HypervolumesAreOptunas) {
  for (const Json& one : pareto_golden().at("hypervolumes")) {
    const double theirs = number_of(one.at("hypervolume"));
    EXPECT_NEAR(hypervolume(rows_of(one.at("losses")), row_of(one.at("reference"))),
                theirs,
                1e-11 * std::max(1.0, theirs))
        << one.dump();
  }
}

TEST(ParetoGolden, HypervolumeSubsetsAreOptunas) {
  for (const Json& one : pareto_golden().at("subsets")) {
    const auto losses = rows_of(one.at("losses"));
    EXPECT_EQ(reference_beyond(losses), row_of(one.at("reference")));
    auto ours =
        hypervolume_subset(losses, one.at("count").get<size_t>(), row_of(one.at("reference")));
    std::ranges::sort(ours);
    EXPECT_EQ(ours, one.at("chosen").get<std::vector<size_t>>()) << one.dump();
  }
}

TEST(ParetoGolden, TheGoodTrialsOfSeveralObjectivesAreOptunas) {
  for (const Json& one : pareto_golden().at("splits")) {
    const auto losses = losses_of(one);
    TrialRanking ranking;
    for (size_t i = 0; i < losses.size(); ++i) {
      const auto age = static_cast<int64_t>(i);
      std::vector<double> scores;
      for (const double loss : losses[i]) scores.push_back(-loss);
      const double violation = one.at("violations")[i];
      if (violation > 0) {
        ranking.add_infeasible(age, violation);
      } else {
        ranking.add_complete(age, scores);
      }
    }
    const size_t count = good_count(losses.size(), 0.1, std::numeric_limits<int64_t>::max());
    EXPECT_EQ(ranking.best(count), one.at("good").get<std::vector<int64_t>>()) << one.dump();
  }
}

TEST(Hypervolume, OfBoxesThatAreCountedByHand) {
  const std::vector<double> reference = {3, 3};
  EXPECT_EQ(hypervolume(std::vector<Losses>{{1, 2}, {2, 1}, {2, 2}, {1, 2}}, reference), 3);
  EXPECT_EQ(hypervolume(std::vector<Losses>{{1, 4}, {3, 1}}, reference), 0) << "beyond, and on it";
  EXPECT_EQ(hypervolume(std::vector<Losses>{}, reference), 0);
  EXPECT_EQ(hypervolume(std::vector<Losses>{{-kInf, 1}}, reference), kInf);
  // Of three unit boxes side by side in a cube of two, each with the others' corner: inclusion and
  // exclusion by hand.
  EXPECT_EQ(hypervolume(std::vector<Losses>{{0, 1, 1}, {1, 0, 1}, {1, 1, 0}},
                        std::vector<double>{2, 2, 2}),
            4);
}

TEST(Fronts, AreThoseOfTheDefinition) {
  // Against the definition, pair by pair, of numbers that are often equal.
  uint64_t state = 11;
  const auto draw = [&] {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<double>(state >> 61);
  };
  for (const size_t width : {2, 3, 4}) {
    std::vector<Losses> losses(60, Losses(width));
    for (Losses& row : losses) {
      for (double& number : row) number = draw();
    }
    const auto ranks = front_ranks(losses);
    for (size_t i = 0; i < losses.size(); ++i) {
      int64_t worst = -1;
      for (size_t j = 0; j < losses.size(); ++j) {
        if (dominates(losses[j], losses[i])) worst = std::max(worst, ranks[j]);
      }
      EXPECT_EQ(ranks[i], worst + 1) << i;
    }
  }
}

}  // namespace
}  // namespace muster::tune
