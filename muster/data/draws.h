// Where a transform's random numbers come from.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include "muster/data/rng.h"

namespace muster::data {

// Note [Two sources of numbers]
// A transform is written once, over Draws, in torchvision's formulas and its order of draws. By
// default the numbers are an Rng's: a function of seed, epoch, sample and step (Note [Random
// numbers]). TorchDraws calls what torchvision's Python calls, LibTorch's own functions on one
// generator: from the same seed, and for samples in the same order, it gives the same parameters, and
// so the same pixels. It is for comparisons and for ported experiments: its numbers hang on what was
// drawn before.

/// Random numbers, in the forms in which torchvision's transforms ask for them. Not thread-safe.
class Draws {
 public:
  virtual ~Draws() = default;

  /// low … high.
  virtual double uniform(double low, double high) = 0;
  /// exp of a uniform number between the logarithms; both are above 0.
  virtual double log_uniform(double low, double high) = 0;
  /// low … high - 1, each as likely as any other; low < high.
  virtual int64_t integer(int64_t low, int64_t high) = 0;
  /// Whether a number in 0 … 1 (without 1) is below `p`.
  virtual bool is_below(double p) = 0;
  /// Whether it is at most `p`.
  virtual bool is_at_most(double p) = 0;
  /// 0 … count-1 in some order.
  virtual std::vector<int64_t> permutation(int64_t count) = 0;
  /// float32 numbers of mean 0 and deviation 1.
  virtual at::Tensor normal(at::IntArrayRef shape) = 0;
  /// Of Beta(alpha, alpha), alpha above 0: 0 … 1.
  virtual double beta(double alpha) = 0;
  /// 0 … weights.size()-1, each as likely as its share of the weights, which are at least 0 and not all
  /// of them 0.
  virtual int64_t weighted(std::span<const double> weights) = 0;
};

/// The numbers of one sample in one step. The Rng outlives it.
class RngDraws final : public Draws {
 public:
  explicit RngDraws(Rng& rng) : rng_(rng) {}

  double uniform(double low, double high) override { return rng_.uniform(low, high); }
  double log_uniform(double low, double high) override;
  int64_t integer(int64_t low, int64_t high) override { return low + rng_.below(high - low); }
  bool is_below(double p) override { return rng_.chance(p); }
  bool is_at_most(double p) override { return rng_.uniform() <= p; }
  std::vector<int64_t> permutation(int64_t count) override;
  at::Tensor normal(at::IntArrayRef shape) override;
  double beta(double alpha) override;
  int64_t weighted(std::span<const double> weights) override;

 private:
  double gamma(double shape);

  Rng& rng_;
};

/// What torchvision draws from a generator on the CPU: `torch_draws(seed)` has the numbers that Python
/// has behind torch.manual_seed(seed).
class TorchDraws final : public Draws {
 public:
  explicit TorchDraws(at::Generator generator) : generator_(std::move(generator)) {}

  double uniform(double low, double high) override;
  double log_uniform(double low, double high) override;
  int64_t integer(int64_t low, int64_t high) override;
  bool is_below(double p) override;
  bool is_at_most(double p) override;
  std::vector<int64_t> permutation(int64_t count) override;
  at::Tensor normal(at::IntArrayRef shape) override;
  double beta(double alpha) override;
  int64_t weighted(std::span<const double> weights) override;

 private:
  at::Generator generator_;
};

TorchDraws torch_draws(uint64_t seed);

}  // namespace muster::data
