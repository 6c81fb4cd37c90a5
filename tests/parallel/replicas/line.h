// The smallest model that DataParallel can train, and replicas without a device of their own.
#pragma once

#include <vector>

#include <torch/torch.h>

namespace muster::test {

using Linear = torch::nn::Linear;

inline std::vector<at::Device> cpus(int count) { return std::vector<at::Device>(count, at::kCPU); }

/// The same weights each time.
inline Linear make_line() {
  torch::manual_seed(3);
  return Linear(4, 2);
}

inline torch::Tensor square(Linear& line, const torch::Tensor& x) {
  return line->forward(x).pow(2).mean();
}

}  // namespace muster::test
