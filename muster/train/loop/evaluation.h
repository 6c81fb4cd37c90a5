// What an evaluation found.
#pragma once

#include <cstdint>
#include <optional>

#include "muster/train/metrics/confusion_matrix.h"
#include "muster/train/metrics/meter.h"

namespace muster::train {

struct Evaluation {
  Meter meter;
  std::optional<ConfusionMatrix> confusion;  ///< if it was asked for
  int64_t in_top_k = 0;  ///< samples whose class is among the k best scores, if k was asked for

  double top_k_accuracy() const {
    return meter.count > 0 ? static_cast<double>(in_top_k) / static_cast<double>(meter.count) : 0;
  }
};

}  // namespace muster::train
