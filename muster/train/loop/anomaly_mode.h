// --detect-anomaly: torch.autograd.set_detect_anomaly.
#pragma once

#include <optional>

#include <torch/csrc/autograd/anomaly_mode.h>

namespace muster::train {

/// Where it is wanted, an operator whose gradient is NaN is an error that names it, and LibTorch's warning has the
/// stack of its forward; while one of these lives. LibTorch keeps it for all threads: make it before ranks that are
/// threads start.
class AnomalyMode {
 public:
  explicit AnomalyMode(bool is_wanted) {
    if (is_wanted) guard_.emplace();
  }
  AnomalyMode(const AnomalyMode&) = delete;
  AnomalyMode& operator=(const AnomalyMode&) = delete;

 private:
  std::optional<torch::autograd::DetectAnomalyGuard> guard_;
};

}  // namespace muster::train
