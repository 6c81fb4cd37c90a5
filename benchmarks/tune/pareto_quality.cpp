// How good a searcher is with several objectives: studies in memory, over functions whose front is known.
//
//     pareto_quality --searcher SPEC [--searcher …] [--problem NAME …] [--trials 400] [--seeds 20]
//                    [--first-seed 0] [--slots 1]
//     pareto_quality --check
//
// Prints CSV: problem, searcher, seed, after how many trials, volume (what the trials' front dominates,
// up to the problem's reference point). `--slots` and `--check` as of tune_quality; pareto.py has the
// same functions for Python. Sources: Zitzler, Deb, Thiele 2000 (zdt1 to zdt6, without the binary zdt5);
// Deb, Thiele, Laumanns, Zitzler 2002 (dtlz2). `network2` and `tree2` are the problems of problems.h
// beside what their networks cost.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>
#include <limits>
#include <memory>
#include <numbers>
#include <span>
#include <string>
#include <vector>

#include "muster/base/json.h"
#include "muster/tune/objective/hypervolume.h"
#include "muster/tune/search/searcher.h"

#include "benchmarks/tune/problems.h"
#include "benchmarks/tune/quality_options.h"

namespace tune = muster::tune;
using muster::benchmarks::parse_quality_options;
using muster::benchmarks::QualityOptions;
using tune::Losses;
using tune::Space;
using tune::Values;

namespace {

struct ParetoProblem {
  std::string name;
  Space space;
  Losses reference;
  Losses (*value)(const Values& values) = nullptr;  ///< to be minimised
};

constexpr double kPi = std::numbers::pi;

double at(const Values& values, size_t i) { return values[i].as_double(); }

/// The sum of f over all coordinates but the first.
template <class F>
double sum_of_rest(const Values& values, F f) {
  double sum = 0;
  for (size_t i = 1; i < values.size(); ++i) sum += f(at(values, i));
  return sum;
}
double mean_of_rest(const Values& values) {
  return sum_of_rest(values, [](double x) { return x; }) / static_cast<double>(values.size() - 1);
}

Losses zdt1(const Values& values) {
  const double f = at(values, 0), g = 1 + 9 * mean_of_rest(values);
  return {f, g * (1 - std::sqrt(f / g))};
}
Losses zdt2(const Values& values) {
  const double f = at(values, 0), g = 1 + 9 * mean_of_rest(values);
  return {f, g * (1 - f / g * f / g)};
}
Losses zdt3(const Values& values) {
  const double f = at(values, 0), g = 1 + 9 * mean_of_rest(values);
  return {f, g * (1 - std::sqrt(f / g) - f / g * std::sin(10 * kPi * f))};
}
Losses zdt4(const Values& values) {
  const double f = at(values, 0);
  const double g = 1 + 10 * static_cast<double>(values.size() - 1) +
                   sum_of_rest(values, [](double x) { return x * x - 10 * std::cos(4 * kPi * x); });
  return {f, g * (1 - std::sqrt(f / g))};
}
Losses zdt6(const Values& values) {
  const double x = at(values, 0);
  const double f = 1 - std::exp(-4 * x) * std::pow(std::sin(6 * kPi * x), 6);
  const double g = 1 + 9 * std::pow(mean_of_rest(values), 0.25);
  return {f, g * (1 - f / g * f / g)};
}

/// Three objectives; the front is an eighth of the unit sphere.
Losses dtlz2(const Values& values) {
  double g = 0;
  for (size_t i = 2; i < values.size(); ++i) g += (at(values, i) - 0.5) * (at(values, i) - 0.5);
  const double a = at(values, 0) * kPi / 2, b = at(values, 1) * kPi / 2;
  return {(1 + g) * std::cos(a) * std::cos(b),
          (1 + g) * std::cos(a) * std::sin(b),
          (1 + g) * std::sin(a)};
}

const muster::benchmarks::Problem& single(std::string_view name) {
  const auto all = muster::benchmarks::problems();
  return *std::ranges::find(all, name, &muster::benchmarks::Problem::name);
}

/// Loss, and the doublings of the width.
Losses network2(const Values& values) {
  return {single("network").value(values), std::log2(at(values, 1))};
}

/// Loss, and the doublings of all widths together.
Losses tree2(const Values& values) {
  double doublings = 0;
  for (size_t i = 5; i < 8; ++i) doublings += values[i].is_none() ? 0 : std::log2(at(values, i));
  return {single("tree").value(values), doublings};
}

Space unit_cube(int n, double low, double high) {
  std::vector<tune::Parameter> parameters = {{.name = "x0", .domain = tune::uniform(0, 1)}};
  for (int i = 1; i < n; ++i)
    parameters.push_back({.name = "x" + std::to_string(i), .domain = tune::uniform(low, high)});
  return Space(parameters);
}

const std::vector<ParetoProblem>& pareto_problems() {
  static const std::vector<ParetoProblem> all = {
      {"zdt1", unit_cube(30, 0, 1), {1, 10}, zdt1},
      {"zdt2", unit_cube(30, 0, 1), {1, 10}, zdt2},
      {"zdt3", unit_cube(30, 0, 1), {1, 10}, zdt3},
      {"zdt4", unit_cube(10, -5, 5), {1, 260}, zdt4},
      {"zdt6", unit_cube(10, 0, 1), {1, 10}, zdt6},
      {"dtlz2", unit_cube(12, 0, 1), {2.5, 2.5, 2.5}, dtlz2},
      {"network2", single("network").space, {2, 8}, network2},
      {"tree2", single("tree").space, {2, 27}, tree2}};
  return all;
}

/// One study; trials that are under way end in the order in which they were suggested.
void run(const ParetoProblem& problem,
         const std::string& spec,
         uint64_t seed,
         const QualityOptions& options) {
  std::vector<tune::Objective> objectives;
  for (size_t i = 0; i < problem.reference.size(); ++i)
    objectives.push_back({.metric = "f" + std::to_string(i), .mode = tune::Mode::kMin});
  const auto searcher = tune::make_searcher(spec,
                                            {.space = problem.space,
                                             .seed = seed,
                                             .num_samples = options.trials,
                                             .mode = tune::Mode::kMin,
                                             .metric = objectives[0].metric,
                                             .objectives = objectives,
                                             .slots = options.slots});
  struct Running {
    int64_t number;
    tune::Point point;
  };
  std::deque<Running> running;
  std::vector<Losses> seen;
  const tune::Point open(problem.space.dimensions().size(),
                         std::numeric_limits<double>::quiet_NaN());
  const auto finish_first = [&] {
    const auto [number, point] = running.front();
    running.pop_front();
    seen.push_back(problem.value(problem.space.resolve(point)));
    std::vector<double> scores;
    for (const double loss : seen.back()) scores.push_back(-loss);
    searcher->told(
        {.number = number, .point = point, .score = scores[0], .step = 1, .scores = scores});
    const size_t n = seen.size();
    if (n == 50 || n == 100 || n == 200 || n % 400 == 0) {
      std::printf("%s,%s,%llu,%zu,%.17g\n",
                  problem.name.c_str(),
                  spec.find(',') == spec.npos ? spec.c_str() : ('"' + spec + '"').c_str(),
                  static_cast<unsigned long long>(seed),
                  n,
                  tune::hypervolume(seen, problem.reference));
    }
  };
  for (int64_t number = 0; number < options.trials;) {
    tune::Searcher::Suggestion suggestion{.kind = tune::Searcher::Suggestion::kWait};
    if (static_cast<int64_t>(running.size()) < options.slots)
      suggestion = searcher->suggest(number, open);
    if (suggestion.kind == tune::Searcher::Suggestion::kPoint) {
      const auto point = problem.space.with_conditions(suggestion.point);
      searcher->suggested(number, point, suggestion.memo);
      running.push_back({number++, point});
    } else if (!running.empty()) {
      finish_first();
    } else {
      throw std::runtime_error(spec + " waits for nothing");
    }
  }
  while (!running.empty()) finish_first();
}

void check() {
  for (const ParetoProblem& problem : pareto_problems()) {
    std::vector<Losses> all;
    for (int64_t number = 0; number < 8; ++number) {
      const auto point = problem.space.with_conditions(problem.space.draw({}, 1, number));
      const auto values = problem.space.resolve(point);
      all.push_back(problem.value(values));
      const muster::Json line = {{"problem", problem.name},
                                 {"config", tune::to_json(problem.space, values)},
                                 {"values", all.back()},
                                 {"volume", tune::hypervolume(all, problem.reference)}};
      std::printf("%s\n", line.dump().c_str());
    }
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const QualityOptions options = parse_quality_options("pareto_quality", 400, argc, argv);
  if (options.check) return check(), 0;
  std::printf("problem,searcher,seed,after,volume\n");
  for (const ParetoProblem& problem : pareto_problems()) {
    const auto& wanted = options.problems;
    if (!wanted.empty() && std::ranges::find(wanted, problem.name) == wanted.end()) continue;
    for (const std::string& searcher : options.searchers) {
      for (int64_t seed = options.first_seed; seed < options.first_seed + options.seeds; ++seed)
        run(problem, searcher, static_cast<uint64_t>(seed), options);
      std::fflush(stdout);
    }
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
