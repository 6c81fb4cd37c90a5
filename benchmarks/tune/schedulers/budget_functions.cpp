#include "benchmarks/tune/schedulers/budget_functions.h"

#include <cmath>
#include <cstddef>
#include <numbers>
#include <utility>
#include <vector>

#include "tests/tune/simulated_study.h"

namespace muster::benchmarks {
namespace {

using std::numbers::pi;
using tune::Point;
using tune::Space;

double square(double x) { return x * x; }

double share_of(int64_t epoch) { return static_cast<double>(epoch) / kBudgetEpochs; }

Space unit_cube(int dimensions) {
  std::vector<tune::Parameter> parameters;
  parameters.reserve(static_cast<size_t>(dimensions));
  for (int i = 0; i < dimensions; ++i)
    parameters.push_back({.name = "x" + std::to_string(i), .domain = tune::uniform(0, 1)});
  return Space(std::move(parameters));
}

template <size_t Dimensions>
double hartmann(const double (&steep)[4][Dimensions],
                const double (&place)[4][Dimensions],
                const Point& x,
                double share) {
  constexpr double kHeight[] = {1, 1.2, 3, 3.2};
  double sum = 0;
  for (size_t hill = 0; hill < 4; ++hill) {
    double far = 0;
    for (size_t d = 0; d < Dimensions; ++d) far += steep[hill][d] * square(x[d] - place[hill][d]);
    sum -= (kHeight[hill] - 0.1 * (1 - share)) * std::exp(-far);
  }
  return sum;
}

double hartmann3(const Point& x, double share) {
  constexpr double kSteep[4][3] = {{3, 10, 30}, {0.1, 10, 35}, {3, 10, 30}, {0.1, 10, 35}};
  constexpr double kPlace[4][3] = {{0.3689, 0.1170, 0.2673},
                                   {0.4699, 0.4387, 0.7470},
                                   {0.1091, 0.8732, 0.5547},
                                   {0.03815, 0.5743, 0.8828}};
  return hartmann(kSteep, kPlace, x, share);
}

double hartmann6(const Point& x, double share) {
  constexpr double kSteep[4][6] = {{10, 3, 17, 3.5, 1.7, 8},
                                   {0.05, 10, 17, 0.1, 8, 14},
                                   {3, 3.5, 1.7, 10, 17, 8},
                                   {17, 8, 0.05, 10, 0.1, 14}};
  constexpr double kPlace[4][6] = {{.1312, .1696, .5569, .0124, .8283, .5886},
                                   {.2329, .4135, .8307, .3736, .1004, .9991},
                                   {.2348, .1451, .3522, .2883, .3047, .6650},
                                   {.4047, .8828, .8732, .5743, .1091, .0381}};
  return hartmann(kSteep, kPlace, x, share);
}

double branin(const Point& x, double share) {
  const double b = 5.1 / (4 * pi * pi) - 0.01 * (1 - share), c = 5 / pi - 0.1 * (1 - share);
  const double t = 1 / (8 * pi) + 0.05 * (1 - share);
  return square(x[1] - b * x[0] * x[0] + c * x[0] - 6) + 10 * (1 - t) * std::cos(x[0]) + 10;
}

/// The flow through a borehole, which is to be large: less of it is worse. m³ a year.
double borehole(const Point& x, double share) {
  const auto flow = [&](double factor, double plus) {
    const double log = std::log(x[1] / x[0]);
    return factor * x[2] * (x[3] - x[5]) /
           (log * (plus + 2 * x[6] * x[2] / (log * x[0] * x[0] * x[7]) + x[2] / x[4]));
  };
  return -(share * flow(2 * pi, 1) + (1 - share) * flow(5, 1.5));
}

Space borehole_space() {
  return {{"radius", tune::uniform(0.05, 0.15)},
          {"influence", tune::uniform(100, 50'000)},
          {"upper_transmissivity", tune::uniform(63'070, 115'600)},
          {"upper_head", tune::uniform(990, 1110)},
          {"lower_transmissivity", tune::uniform(63.1, 116)},
          {"lower_head", tune::uniform(700, 820)},
          {"length", tune::uniform(1120, 1680)},
          {"conductivity", tune::uniform(9855, 12'045)}};
}

constexpr size_t kCategories = 4, kProbabilities = 4;

Space counting_ones_space() {
  std::vector<tune::Parameter> parameters;
  parameters.reserve(kCategories + kProbabilities);
  for (size_t i = 0; i < kCategories; ++i)
    parameters.push_back({.name = "c" + std::to_string(i), .domain = tune::choice({0, 1})});
  for (size_t i = 0; i < kProbabilities; ++i)
    parameters.push_back({.name = "p" + std::to_string(i), .domain = tune::uniform(0, 1)});
  return Space(std::move(parameters));
}

double counting_ones(const Point& x, double /*share*/) {
  double ones = 0;
  for (const double each : x) ones += each;
  return -ones;
}

/// A probability is known by as many draws as there were epochs.
double counted_ones(const Point& x, int64_t epoch, uint64_t seed, int64_t trial) {
  double ones = 0;
  for (size_t i = 0; i < kCategories; ++i) ones += x[i];
  for (size_t i = 0; i < kProbabilities; ++i) {
    int64_t drawn = 0;
    for (int64_t t = 1; t <= epoch; ++t) {
      const auto what = static_cast<uint32_t>(100 + i);
      drawn += tune::simulated_chance(seed, trial, t, what) < x[kCategories + i] ? 1 : 0;
    }
    ones += static_cast<double>(drawn) / static_cast<double>(epoch);
  }
  return -ones;
}

BudgetFunction without_noise(std::string name,
                             Space space,
                             double least,
                             double (*value)(const Point&, double)) {
  return {.name = std::move(name),
          .space = std::move(space),
          .least = least,
          .value = value,
          .seen = [value](const Point& x, int64_t epoch, uint64_t, int64_t) {
            return value(x, share_of(epoch));
          }};
}

}  // namespace

std::span<const BudgetFunction> budget_functions() {
  static const std::vector<BudgetFunction> all = {
      without_noise("branin",
                    {{"x0", tune::uniform(-5, 10)}, {"x1", tune::uniform(0, 15)}},
                    0.397887357729738,
                    branin),
      without_noise("hartmann3", unit_cube(3), -3.86277978740866, hartmann3),
      without_noise("hartmann6", unit_cube(6), -3.32236801141551, hartmann6),
      without_noise("borehole", borehole_space(), -309.5755876604079, borehole),
      {.name = "counting_ones",
       .space = counting_ones_space(),
       .least = -static_cast<double>(kCategories + kProbabilities),
       .value = counting_ones,
       .seen = counted_ones}};
  return all;
}

}  // namespace muster::benchmarks
