// BOHB's model choices beside hpbandster 0.7.4, from tests/golden/bohb/golden.json.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "muster/base/json.h"
#include "muster/tune/search/kde/budgets.h"
#include "muster/tune/search/kde/product_kde.h"

#include "tests/support/golden.h"

namespace muster::tune {
namespace {

constexpr double kClose = 1e-10;

struct RecordedHistory {
  std::vector<KdeAxis> axes;
  KdeSplitRule rule;
  Json events;

  explicit RecordedHistory(const Json& json) : events(json.at("events")) {
    for (const size_t levels : json.at("levels")) axes.push_back({levels});
    rule = {.dimensions = axes.size(), .least_points = json.at("min_points")};
  }
  double loss(size_t event) const {
    const Json& loss = events[event].at("loss");
    return loss == "inf" ? std::numeric_limits<double>::infinity() : loss.get<double>();
  }
  KdeColumns columns(const std::vector<size_t>& results) const {
    KdeColumns columns(axes.size());
    for (const size_t result : results) {
      for (size_t c = 0; c < axes.size(); ++c) {
        const Json& cell = events[result].at("row")[c];
        columns[c].push_back(cell.is_null() ? std::numeric_limits<double>::quiet_NaN()
                                            : cell.get<double>());
      }
    }
    return columns;
  }
};

/// The density of what is recorded of one half, imputed by the random choices of the record.
ProductKde recorded_kde(const RecordedHistory& history, const Json& half) {
  size_t next = 0;
  const Json& draws = half.at("draws");
  const KdeDraws replay{.index =
                            [&](size_t count) {
                              const size_t draw = draws.at(next++);
                              EXPECT_LT(draw, count);
                              return draw;
                            },
                        .uniform = [&]() -> double { return draws.at(next++); }};
  ProductKde kde(
      imputed(history.columns(half.at("results")), history.axes, replay), history.axes, 1e-3);
  EXPECT_EQ(next, draws.size());
  return kde;
}

void expect_like(const RecordedHistory& history, const Budgets& budgets, const Json& recorded) {
  std::vector<size_t> good, bad;
  const auto ranked = budgets.ranked();
  const auto split = kde_split(ranked.size(), history.rule);
  ASSERT_TRUE(split.has_value());
  for (size_t i = 0; i < split->good + split->bad; ++i)
    (i < split->good ? good : bad).push_back(ranked[i].row);
  EXPECT_EQ(good, recorded.at("good").at("results").get<std::vector<size_t>>());
  EXPECT_EQ(bad, recorded.at("bad").at("results").get<std::vector<size_t>>());

  const KdeModel model{recorded_kde(history, recorded.at("good")),
                       recorded_kde(history, recorded.at("bad"))};
  for (const auto& [name, kde] : {std::pair{"good", &model.good}, std::pair{"bad", &model.bad}}) {
    const std::vector<double> theirs = recorded.at(name).at("bandwidths");
    for (size_t c = 0; c < theirs.size(); ++c)
      EXPECT_NEAR(kde->bandwidths()[c], theirs[c], kClose) << name << c;
  }
  for (size_t i = 0; i < recorded.at("points").size(); ++i) {
    const std::vector<double> point = recorded.at("points")[i];
    const double theirs = recorded.at("acquisition")[i];
    EXPECT_NEAR(model.acquisition(point) / theirs, 1, kClose) << i;
  }
}

TEST(BohbGolden, TheBudgetTheHalvesAndTheDensitiesAreThoseOfHpbandster) {
  const Json golden = test::read_golden("bohb");
  for (const auto& [name, json] : golden.at("histories").items()) {
    SCOPED_TRACE(name);
    const RecordedHistory history(json);
    Budgets budgets(history.rule);
    size_t models = 0;
    for (size_t i = 0; i < history.events.size(); ++i) {
      const Json& event = history.events[i];
      budgets.add(event.at("budget"), i, history.loss(i));
      const auto modelled = budgets.modelled();
      EXPECT_EQ(modelled ? Json(*modelled) : Json(), event.at("modelled")) << "event " << i;
      if (!event.contains("model")) continue;
      SCOPED_TRACE(i);
      ++models;
      ASSERT_NO_FATAL_FAILURE(expect_like(history, budgets, event.at("model")));
    }
    EXPECT_GT(models, 2u);
  }
}

}  // namespace
}  // namespace muster::tune
