#include "muster/train/progress/early_stopping.h"

#include <algorithm>
#include <cmath>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

namespace muster::train {

EarlyStopping::EarlyStopping(const EarlyStoppingOptions& options) : options_(options) {
  if (options.patience < 0 || !(options.min_delta >= 0)) {
    throw usage_error(
        {.refused = "early stopping",
         .rule = "patience and min_delta are not negative",
         .value = concat("patience=", options.patience, ", min_delta=", options.min_delta)});
  }
}

bool EarlyStopping::after_epoch(double metric) {
  ++epochs_;
  const double sign = options_.wants_less ? 1 : -1;
  const bool is_better =
      best_ ? sign * metric + options_.min_delta < sign * *best_ : std::isfinite(metric);
  if (!is_better) return false;
  best_ = metric;
  best_epoch_ = epochs_ - 1;
  return true;
}

bool EarlyStopping::should_stop() const {
  return epochs_waited() >= std::max<int64_t>(1, options_.patience);
}

Json EarlyStopping::state() const {
  return {
      {"best", best_ ? Json(*best_) : Json()}, {"best_epoch", best_epoch_}, {"epochs", epochs_}};
}

void EarlyStopping::load_state(const Json& state) {
  try {
    const Json& best = state.at("best");
    best_ = best.is_null() ? std::nullopt : std::optional(best.get<double>());
    best_epoch_ = state.at("best_epoch").get<int64_t>();
    epochs_ = state.at("epochs").get<int64_t>();
  } catch (const Json::exception& error) {
    throw usage_error({.refused = "state of early stopping",
                       .rule = "it has best, best_epoch and epochs",
                       .value = error.what()});
  }
}

}  // namespace muster::train
