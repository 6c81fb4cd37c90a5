// The boxes beside the hypervolume of objective/, the expectation beside draws, slopes beside
// differences.
#include "muster/tune/search/gp/hypervolume_improvement.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "muster/tune/objective/hypervolume.h"

namespace muster::tune {
namespace {

using FrontRows = std::vector<std::vector<double>>;

double volume_of(const FrontRows& points, const std::vector<double>& reference) {
  std::vector<Losses> losses;
  for (const auto& point : points) {
    losses.emplace_back();
    for (const double x : point) losses.back().push_back(-x);
  }
  Losses from;
  for (const double x : reference) from.push_back(-x);
  return hypervolume(losses, from);
}

double added_by(const std::vector<FreeBox>& boxes, const std::vector<double>& y) {
  double sum = 0;
  for (const FreeBox& box : boxes) {
    double volume = 1;
    for (size_t m = 0; m < y.size(); ++m)
      volume *= std::max(0.0, std::min(y[m], box.high[m]) - box.low[m]);
    sum += volume;
  }
  return sum;
}

FrontRows drawn_rows(std::mt19937& random, size_t count, size_t objectives) {
  std::normal_distribution<double> normal;
  FrontRows out(count, std::vector<double>(objectives));
  for (auto& row : out)
    for (double& x : row) x = normal(random);
  return out;
}

TEST(HypervolumeImprovement, WhatAPointTakesOfTheBoxesIsTheVolumeThatItAdds) {
  std::mt19937 random(1);
  for (const size_t objectives : {1U, 2U, 3U, 4U}) {
    const std::vector<double> reference(objectives, -2);
    for (const size_t count : {0U, 1U, 6U}) {
      const FrontRows front = drawn_rows(random, count, objectives);
      const auto boxes = free_boxes(front, reference);
      for (const auto& y : drawn_rows(random, 20, objectives)) {
        FrontRows with = front;
        with.push_back(y);
        const double before = front.empty() ? 0 : volume_of(front, reference);
        EXPECT_NEAR(added_by(boxes, y), volume_of(with, reference) - before, 1e-10);
      }
    }
  }
}

/// A posterior over [0, 1] from a few values.
GpPosterior posterior_through(const std::vector<double>& targets) {
  GpPosterior out({0}, {.weights = {4}, .scale = 1, .noise = 1e-4});
  PointSet points(1);
  for (size_t i = 0; i < targets.size(); ++i)
    points.append(
        std::vector{(static_cast<double>(i) + 0.5) / static_cast<double>(targets.size())});
  out.assign(points);
  out.set_targets(targets);
  return out;
}

struct TwoObjectives {
  GpPosterior first = posterior_through({0.3, -1.0, 1.2}),
              second = posterior_through({-0.5, 0.9, 0.1});
  FrontRows front = {{1.2, 0.1}, {-1.0, 0.9}, {0.3, 0.4}};
  std::vector<double> reference = {-1.5, -1};
  HypervolumeImprovement improvement{{&first, &second}, front, reference};
};

TEST(HypervolumeImprovement, IsTheLogOfTheMeanOverDraws) {
  const TwoObjectives two;
  const auto boxes = free_boxes(two.front, two.reference);
  PointSet points(1);
  for (const double x : {0.0, 0.3, 0.75}) points.append(std::vector{x});
  GpPosterior::Answer first, second;
  two.first.ask(points, 0, points.size(), false, first);
  two.second.ask(points, 0, points.size(), false, second);
  const auto values = two.improvement.values(points);
  std::mt19937 random(2);
  std::normal_distribution<double> normal;
  constexpr int kDraws = 50'000;
  for (size_t j = 0; j < points.size(); ++j) {
    double sum = 0, squares = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double a = first.mean[j] + std::sqrt(first.variance[j]) * normal(random);
      const double b = second.mean[j] + std::sqrt(second.variance[j]) * normal(random);
      const double added = added_by(boxes, {a, b});
      sum += added, squares += added * added;
    }
    const double mean = sum / kDraws;
    EXPECT_NEAR(std::exp(values[j]), mean, 5 * std::sqrt(squares) / kDraws) << j;
  }
}

TEST(HypervolumeImprovement, ItsSlopesAreItsDifferences) {
  const TwoObjectives two;
  constexpr double kStep = 1e-5;
  for (const double x : {0.05, 0.4, 0.9}) {
    PointSet points(1);
    for (const double at : {x - kStep, x, x + kStep}) points.append(std::vector{at});
    std::vector<double> slopes;
    const auto values = two.improvement.values(points, slopes);
    const auto same = two.improvement.values(points);
    for (size_t j = 0; j < values.size(); ++j) EXPECT_NEAR(values[j], same[j], 1e-12);
    const double difference = (values[2] - values[0]) / (2 * kStep);
    EXPECT_NEAR(slopes[1], difference, 1e-5 * std::max(1.0, std::abs(difference)));
  }
}

TEST(HypervolumeImprovement, FarBelowTheFrontItIsStillANumberWithASlope) {
  const GpPosterior low = posterior_through({-3, -3.1, -2.9}), other = posterior_through({0, 0, 0});
  const FrontRows front = {{40, 40}};
  const std::vector<double> reference = {30, 30};
  const HypervolumeImprovement improvement({&low, &other}, front, reference);
  PointSet points(1);
  points.append(std::vector{0.4});
  std::vector<double> slopes;
  EXPECT_TRUE(std::isfinite(improvement.values(points, slopes)[0]));
  EXPECT_TRUE(std::isfinite(slopes[0]));
  EXPECT_NE(slopes[0], 0);
}

}  // namespace
}  // namespace muster::tune
