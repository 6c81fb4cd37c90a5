#include "muster/tune/schedule/median/step_percentiles.h"

#include <cmath>
#include <limits>

namespace muster::tune {

void StepPercentiles::add_complete(const Curve& curve) {
  ++complete_;
  for (const auto& [step, score] : curve) {
    Step& at = steps_.try_emplace(step, Step{RunningQuantile(share_)}).first->second;
    ++at.n;
    if (!std::isnan(score)) at.scores.add(score);
  }
}

StepPercentiles::At StepPercentiles::at(int64_t step) const {
  const auto found = steps_.find(step);
  if (found == steps_.end()) return {std::numeric_limits<double>::quiet_NaN(), 0};
  return {found->second.scores.value(), found->second.n};
}

}  // namespace muster::tune
