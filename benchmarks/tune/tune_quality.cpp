// How good a searcher is: studies in memory, over functions whose least value is known.
//
//     tune_quality --searcher SPEC [--searcher …] [--problem NAME …] [--trials 100] [--seeds 20]
//                  [--first-seed 0] [--slots 1] [--tables FOLDER]
//     tune_quality --check [--tables FOLDER]
//
// Prints CSV: problem, searcher, seed, after how many trials, regret (value of the trial that
// looked best by then, less the problem's least). `--slots`: trials under way at once, which end
// first in, first out. With `--tables` the problems are those that tables/make.py wrote there, else those
// of problems.h. `--check` prints some configurations and their values as JSON lines, for
// run.py to hold peer.py's functions against.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/json.h"
#include "muster/base/philox.h"
#include "muster/tune/search/searcher.h"

#include "benchmarks/tune/problems.h"
#include "benchmarks/tune/quality_options.h"
#include "benchmarks/tune/tables/table_problems.h"

namespace tune = muster::tune;
using muster::benchmarks::parse_quality_options;
using muster::benchmarks::Problem;
using muster::benchmarks::problems;
using muster::benchmarks::QualityOptions;

namespace {

/// A number of the standard normal distribution, trial `number`'s own. Source: Box and Muller 1958.
double normal(uint64_t seed, int64_t number) {
  const auto bits = muster::philox4x32_10({static_cast<uint32_t>(number), 0, 0, 0x2015E},
                                          {static_cast<uint32_t>(seed), 1});
  const double u = (bits[0] + 0.5) * 0x1p-32, v = (bits[1] + 0.5) * 0x1p-32;
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * 3.14159265358979324 * v);
}

/// One study. Trials that are under way are told in the order in which they were suggested.
class Study {
 public:
  Study(const Problem& problem, const std::string& searcher, uint64_t seed, int64_t trials)
      : problem_(problem),
        name_(searcher),
        seed_(seed),
        searcher_(tune::make_searcher(
            searcher, {.space = problem.space, .seed = seed, .num_samples = trials})) {}

  void run(int64_t trials, int64_t slots) {
    const tune::Point open(problem_.space.dimensions().size(),
                           std::numeric_limits<double>::quiet_NaN());
    for (int64_t number = 0; number < trials;) {
      tune::Searcher::Suggestion suggestion{.kind = tune::Searcher::Suggestion::kWait};
      if (static_cast<int64_t>(running_.size()) < slots)
        suggestion = searcher_->suggest(number, open);
      if (suggestion.kind == tune::Searcher::Suggestion::kFinished) break;
      if (suggestion.kind == tune::Searcher::Suggestion::kPoint) {
        const auto point = problem_.space.with_conditions(suggestion.point);
        searcher_->suggested(number, point, suggestion.memo);
        running_.push_back({number++, point});
      } else if (!running_.empty()) {
        finish_first();
      } else {
        throw std::runtime_error(name_ + " waits for nothing");
      }
    }
    while (!running_.empty()) finish_first();
  }

 private:
  struct Running {
    int64_t number;
    tune::Point point;
  };

  void finish_first() {
    const auto [number, point] = std::move(running_.front());
    running_.pop_front();
    const double value = problem_.value(problem_.space.resolve(point));
    const double seen = value + problem_.noise_sd * normal(seed_, number);
    searcher_->told({.number = number, .point = point, .score = -seen, .step = 1});
    if (seen < best_seen_) best_seen_ = seen, best_ = value;
    if (++finished_ == 25 || finished_ == 50 || finished_ == 100 || finished_ % 200 == 0)
      std::printf("%s,%s,%llu,%lld,%.17g\n",
                  problem_.name.c_str(),
                  quoted().c_str(),
                  static_cast<unsigned long long>(seed_),
                  static_cast<long long>(finished_),
                  best_ - problem_.least);
  }

  std::string quoted() const {
    return name_.find(',') == std::string::npos ? name_ : '"' + name_ + '"';
  }

  const Problem& problem_;
  std::string name_;
  uint64_t seed_;
  std::unique_ptr<tune::Searcher> searcher_;
  std::deque<Running> running_;
  int64_t finished_ = 0;
  double best_seen_ = std::numeric_limits<double>::infinity(), best_ = 0;
};

bool is_wanted(const QualityOptions& options, const Problem& problem) {
  if (options.problems.empty()) return true;
  for (const std::string& name : options.problems) {
    if (name == problem.name) return true;
  }
  return false;
}

void check(const std::vector<Problem>& problems) {
  for (const Problem& problem : problems) {
    for (int64_t number = 0; number < 8; ++number) {
      const auto point = problem.space.with_conditions(problem.space.draw({}, 1, number));
      const auto values = problem.space.resolve(point);
      const muster::Json line = {{"problem", problem.name},
                                 {"config", tune::to_json(problem.space, values)},
                                 {"value", problem.value(values)},
                                 {"least", problem.least}};
      std::printf("%s\n", line.dump().c_str());
    }
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const QualityOptions options = parse_quality_options("tune_quality", 100, argc, argv);
  const auto known = problems();
  const std::vector<Problem> all = options.tables.empty()
                                       ? std::vector<Problem>(known.begin(), known.end())
                                       : muster::benchmarks::read_table_problems(options.tables);
  if (options.check) return check(all), 0;
  std::printf("problem,searcher,seed,after,regret\n");
  for (const Problem& problem : all) {
    if (!is_wanted(options, problem)) continue;
    for (const std::string& searcher : options.searchers) {
      for (int64_t seed = options.first_seed; seed < options.first_seed + options.seeds; ++seed)
        Study(problem, searcher, static_cast<uint64_t>(seed), options.trials)
            .run(options.trials, options.slots);
    }
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
