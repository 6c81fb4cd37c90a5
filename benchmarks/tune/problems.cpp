#include "benchmarks/tune/problems.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

namespace muster::benchmarks {
namespace {

using std::numbers::pi;
using tune::Domain;
using tune::Space;
using tune::Values;

double square(double x) { return x * x; }

/// x0, x1, …, each in [low, high).
Space cube(int dimensions, double low, double high) {
  std::vector<tune::Parameter> parameters;
  for (int i = 0; i < dimensions; ++i)
    parameters.push_back({.name = "x" + std::to_string(i), .domain = tune::uniform(low, high)});
  return Space(std::move(parameters));
}

std::vector<double> numbers(const Values& values) {
  std::vector<double> out;
  for (const tune::Value& value : values) out.push_back(value.as_double());
  return out;
}

double branin(const Values& values) {
  const double x = values[0].as_double(), y = values[1].as_double();
  const double valley = y - 5.1 / (4 * pi * pi) * x * x + 5 / pi * x - 6;
  return square(valley) + 10 * (1 - 1 / (8 * pi)) * std::cos(x) + 10;
}

double hartmann6(const Values& values) {
  constexpr double kHeight[] = {1, 1.2, 3, 3.2};
  constexpr double kSteep[4][6] = {{10, 3, 17, 3.5, 1.7, 8},
                                   {0.05, 10, 17, 0.1, 8, 14},
                                   {3, 3.5, 1.7, 10, 17, 8},
                                   {17, 8, 0.05, 10, 0.1, 14}};
  constexpr double kPlace[4][6] = {{.1312, .1696, .5569, .0124, .8283, .5886},
                                   {.2329, .4135, .8307, .3736, .1004, .9991},
                                   {.2348, .1451, .3522, .2883, .3047, .6650},
                                   {.4047, .8828, .8732, .5743, .1091, .0381}};
  const auto x = numbers(values);
  double sum = 0;
  for (size_t hill = 0; hill < 4; ++hill) {
    double far = 0;
    for (size_t d = 0; d < 6; ++d) far += kSteep[hill][d] * square(x[d] - kPlace[hill][d]);
    sum -= kHeight[hill] * std::exp(-far);
  }
  return sum;
}

double ackley(const Values& values) {
  double squares = 0, waves = 0;
  const auto x = numbers(values);
  const auto n = static_cast<double>(x.size());
  for (const double each : x) squares += each * each, waves += std::cos(2 * pi * each);
  return 20 - 20 * std::exp(-0.2 * std::sqrt(squares / n)) + std::numbers::e - std::exp(waves / n);
}

double rosenbrock(const Values& values) {
  const auto x = numbers(values);
  double sum = 0;
  for (size_t i = 0; i + 1 < x.size(); ++i)
    sum += 100 * square(x[i + 1] - x[i] * x[i]) + square(1 - x[i]);
  return sum;
}

double levy(const Values& values) {
  auto w = numbers(values);
  for (double& each : w) each = 1 + (each - 1) / 4;
  double sum = square(std::sin(pi * w[0]));
  for (size_t i = 0; i + 1 < w.size(); ++i)
    sum += square(w[i] - 1) * (1 + 10 * square(std::sin(pi * w[i] + 1)));
  return sum + square(w.back() - 1) * (1 + square(std::sin(2 * pi * w.back())));
}

double rastrigin(const Values& values) {
  double sum = 0;
  for (const double x : numbers(values)) sum += x * x - 10 * std::cos(2 * pi * x) + 10;
  return sum;
}

/// Four of the 20 dimensions matter.
double sphere(const Values& values) {
  constexpr double kBest[] = {1, -2, 0.5, 3};
  double sum = 0;
  for (size_t d = 0; d < 4; ++d) sum += square(values[5 * d].as_double() - kBest[d]);
  return sum;
}

/// A small network's loss, by and large: its learning rate, width and batch size.
Space network() {
  return {{"lr", tune::loguniform(1e-4, 1e-1)},
          {"l1", tune::sample_from("2 ** randint(2, 9)")},
          {"batch_size", tune::choice({2, 4, 8, 16})}};
}

double network_loss(const Values& values) {
  const double u = std::log10(values[0].as_double()) + 2.3;
  const double v = std::log2(values[1].as_double()) - 6.5;
  const double batch = std::log2(values[2].as_double());
  constexpr double kOfBatch[] = {0, .4, .1, 0, .2};  // of 2, 4, 8, 16
  return u * u + .1 * v * v + .15 * u * v + .05 * std::abs(batch - 3) * std::abs(u) +
         kOfBatch[static_cast<size_t>(batch)];
}

/// Parameters that are there only sometimes, two deep.
Space tree() {
  return Space(std::vector<tune::Parameter>{
      {.name = "optimizer", .domain = tune::choice({"sgd", "adam"})},
      {.name = "lr", .domain = tune::loguniform(1e-5, 1)},
      {.name = "momentum", .domain = tune::uniform(0, 0.99), .when = "optimizer == 'sgd'"},
      {.name = "beta1", .domain = tune::uniform(0.5, 0.99), .when = "optimizer == 'adam'"},
      {.name = "layers", .domain = tune::randint(1, 4)},
      {.name = "width1", .domain = tune::lograndint(8, 513)},
      {.name = "width2", .domain = tune::lograndint(8, 513), .when = "layers >= 2"},
      {.name = "width3", .domain = tune::lograndint(8, 513), .when = "layers >= 3"}});
}

double tree_loss(const Values& values) {
  const bool is_sgd = values[0].as_text() == "sgd";
  const double lr = std::log10(values[1].as_double());
  double sum = is_sgd ? 0.1 + square(lr + 1.5) + 8 * square(values[2].as_double() - 0.9)
                      : 0.8 * square(lr + 3) + 12 * square(values[3].as_double() - 0.85);
  const int64_t layers = values[4].as_int();
  sum += 0.2 * static_cast<double>(std::abs(layers - 2));
  for (size_t k = 0; k < static_cast<size_t>(layers); ++k) {
    const double wanted = 7 - static_cast<double>(k);
    sum += 0.3 * square(std::log2(values[5 + k].as_double()) - wanted);
  }
  return sum;
}

/// A cell of six operations, of five kinds each: how good one is, and how well neighbours go together.
Space choices() {
  std::vector<tune::Parameter> parameters;
  for (int i = 0; i < 6; ++i)
    parameters.push_back(
        {.name = "c" + std::to_string(i), .domain = tune::choice({0, 1, 2, 3, 4})});
  return Space(std::move(parameters));
}

double choices_loss(const Values& values) {
  double sum = 0;
  for (int i = 0; i < 6; ++i) {
    const auto kind = static_cast<int>(values[static_cast<size_t>(i)].as_int());
    sum += (3 * kind + 2 * i) % 5 / 4.0 / (1 + i / 2.0);
    if (i == 5) continue;
    const auto next = static_cast<int>(values[static_cast<size_t>(i) + 1].as_int());
    sum += (kind * next + i) % 3 == 0 ? 0.3 : 0;
  }
  return sum;
}

}  // namespace

std::span<const Problem> problems() {
  static const std::vector<Problem> all = {
      {"branin",
       Space({{"x0", tune::uniform(-5, 10)}, {"x1", tune::uniform(0, 15)}}),
       0.397887357729738,
       branin},
      {"hartmann6", cube(6, 0, 1), -3.32236801141551, hartmann6},
      {"ackley5", cube(5, -32.768, 32.768), 0, ackley},
      {"rosenbrock4", cube(4, -5, 10), 0, rosenbrock},
      {"levy5", cube(5, -10, 10), 0, levy},
      {"rastrigin5", cube(5, -5.12, 5.12), 0, rastrigin},
      {"sphere20", cube(20, -5, 5), 0, sphere},
      {"network", network(), 0, network_loss},
      {"tree", tree(), 0, tree_loss},
      {"choices6", choices(), 0.575, choices_loss},
      {"noisy_branin",
       Space({{"x0", tune::uniform(-5, 10)}, {"x1", tune::uniform(0, 15)}}),
       0.397887357729738,
       branin,
       2}};
  return all;
}

}  // namespace muster::benchmarks
