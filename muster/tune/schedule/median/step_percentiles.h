// Percentiles of complete trials, step by step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "muster/tune/schedule/running_quantile.h"

namespace muster::tune {

/// What Optuna's PercentilePruner compares with (optuna 5.0): at each step, the percentile of the
/// scores that complete trials reported there. O(log n) per report.
class StepPercentiles {
 public:
  /// `percentile` as Optuna counts it: the best so many percent are above.
  explicit StepPercentiles(double percentile) : share_((100 - percentile) / 100) {}

  using Curve = std::vector<std::pair<int64_t, double>>;  ///< step and score

  void add_complete(const Curve& curve);

  size_t complete() const { return complete_; }

  struct At {
    double score;  ///< NaN: of none, or next to an infinity
    size_t n;      ///< complete trials that reported at this step, NaN or not
  };
  At at(int64_t step) const;

 private:
  struct Step {
    RunningQuantile scores;
    size_t n = 0;
  };
  double share_;
  size_t complete_ = 0;
  std::unordered_map<int64_t, Step> steps_;
};

/// Whether `step` is the first report of its interval: there are reports at n_warmup_steps, +
/// interval_steps, …, or the first ones behind these. `before`: the step of the report before; -1 or
/// less: none. Wants step >= n_warmup_steps.
constexpr bool is_first_in_interval(int64_t step,
                                    int64_t before,
                                    int64_t n_warmup_steps,
                                    int64_t interval_steps) {
  return before < step - (step - n_warmup_steps) % interval_steps;
}

}  // namespace muster::tune
