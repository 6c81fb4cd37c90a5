// How LibTorch computes, as a program chooses it: determinism, float32 products in fewer bits,
// channels last.
#pragma once

#include <optional>
#include <string>

#include <torch/nn/module.h>

namespace muster::tensor {

struct MathModes {
  /// torch.use_deterministic_algorithms: an operator has a result that is the same on each run, or
  /// is refused by LibTorch. For CUDA it sets CUBLAS_WORKSPACE_CONFIG, unless that is set.
  bool deterministic = false;
  /// torch.set_float32_matmul_precision: "highest", "high" (TF32 where there is one) or "medium"
  /// (bfloat16).
  std::string float32_matmul_precision = "highest";

  friend bool operator==(const MathModes&, const MathModes&) = default;
};

/// What holds now in this process.
MathModes math_modes();

/// The process's modes while it lives, then those before. What is so already is not touched, so that
/// one that is made inside of another changes nothing. LibTorch keeps them for all threads: make it
/// before ranks that are threads start.
class MathModesGuard {
 public:
  /// Throws a usage error for another precision than those three.
  explicit MathModesGuard(const MathModes& modes);
  ~MathModesGuard();
  MathModesGuard(const MathModesGuard&) = delete;
  MathModesGuard& operator=(const MathModesGuard&) = delete;

 private:
  std::optional<MathModes> before_;
};

/// Weights and buffers of four dimensions have their channels last in memory from now on, as
/// torch's module.to(memory_format=torch.channels_last); the tensors stay the same ones.
void to_channels_last(torch::nn::Module& module);

}  // namespace muster::tensor
