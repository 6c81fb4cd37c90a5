// How far tensors are from what was expected.
#pragma once

#include <algorithm>
#include <vector>

#include <torch/torch.h>

#include "muster/base/json.h"

namespace muster::test {

/// The largest difference between the elements of `ours`, in order, and a list of numbers.
inline double distance(const torch::Tensor& ours, const Json& expected) {
  const torch::Tensor theirs = torch::tensor(expected.get<std::vector<double>>(), torch::kDouble);
  return (ours.detach().to(torch::kDouble).reshape(-1) - theirs).abs().max().item<double>();
}

/// The largest difference, as a share of the largest number of either where that is above 1.
inline double difference(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  double most = a.size() == b.size() ? 0 : 1e300;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const double scale = std::max(1.0, a[i].abs().max().item().toDouble());
    most = std::max(most, (a[i] - b[i]).abs().max().item().toDouble() / scale);
  }
  return most;
}

}  // namespace muster::test
