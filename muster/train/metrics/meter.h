// Sums of loss and right answers over samples.
#pragma once

#include <cstdint>

#include "muster/base/json.h"

namespace muster::train {

/// Doubles and integers, so that sums do not depend on how samples were grouped into reports.
struct Meter {
  double loss_sum = 0;  ///< loss per sample, summed
  int64_t correct = 0;
  int64_t count = 0;

  void add(double mean_loss, int64_t right, int64_t samples) {
    loss_sum += mean_loss * static_cast<double>(samples);
    correct += right;
    count += samples;
  }
  double loss() const { return count > 0 ? loss_sum / static_cast<double>(count) : 0; }
  double accuracy() const {
    return count > 0 ? static_cast<double>(correct) / static_cast<double>(count) : 0;
  }

  Json to_json() const { return {{"loss_sum", loss_sum}, {"correct", correct}, {"count", count}}; }
  static Meter from_json(const Json& json) {
    return {json.at("loss_sum").get<double>(),
            json.at("correct").get<int64_t>(),
            json.at("count").get<int64_t>()};
  }
};

}  // namespace muster::train
