// What tests on a real device share. They are skipped, one by one and in words, where there is none.
#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/tensor/device/cuda.h"

namespace muster::test {

inline const c10::Device kGpu(c10::kCUDA, 0);

/// Fixture of every test of this folder.
class OnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string& why_not = tensor::load_cuda();
    if (!why_not.empty()) GTEST_SKIP() << why_not;
  }
};

/// The largest difference of `there` from `expected`, relative to the largest number of that.
inline double apart(const at::Tensor& there, const at::Tensor& expected) {
  if (there.sizes() != expected.sizes() || there.scalar_type() != expected.scalar_type())
    return 1e300;
  const at::Tensor a = there.detach().cpu().to(at::kDouble);
  const at::Tensor b = expected.detach().cpu().to(at::kDouble);
  if (a.numel() == 0) return 0;
  if (!a.isfinite().all().item<bool>()) return 1e300;
  const double scale = std::max(1e-300, b.abs().max().item<double>());
  return (a - b).abs().max().item<double>() / scale;
}

inline double apart(const std::vector<at::Tensor>& there, const std::vector<at::Tensor>& expected) {
  double most = there.size() == expected.size() ? 0 : 1e300;
  for (size_t i = 0; i < there.size() && i < expected.size(); ++i)
    most = std::max(most, apart(there[i], expected[i]));
  return most;
}

}  // namespace muster::test
