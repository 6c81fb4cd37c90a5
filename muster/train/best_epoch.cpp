#include "muster/train/best_epoch.h"

#include <cmath>

#include "muster/base/text.h"

namespace muster::train {

bool BestEpoch::after_epoch(double value, int64_t step) {
  const double gain = options_.falls ? value_ - value : value - value_;
  const bool better = !std::isnan(value) && (step_ < 0 || gain > options_.min_delta);
  if (!better) {
    ++waited_;
    return false;
  }
  step_ = step;
  value_ = value;
  waited_ = 0;
  return true;
}

std::string BestEpoch::why() const {
  const std::string epochs = concat(waited_, waited_ == 1 ? " epoch" : " epochs");
  if (step_ < 0) return concat("stopped early: no epoch gave a number for ", epochs);
  return concat(
      "stopped early: no epoch better than step ", step_, "'s ", fixed(value_, 4), " for ", epochs);
}

Json BestEpoch::state() const { return {{"step", step_}, {"value", value_}, {"waited", waited_}}; }

void BestEpoch::load_state(const Json& state) {
  step_ = state.at("step").get<int64_t>();
  value_ = state.at("value").get<double>();
  waited_ = state.at("waited").get<int64_t>();
}

}  // namespace muster::train
