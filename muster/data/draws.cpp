#include "muster/data/draws.h"

#include <cmath>
#include <numeric>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/_sample_dirichlet.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log.h>
#include <ATen/ops/multinomial.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randperm.h>
#include <ATen/ops/scalar_tensor.h>

namespace muster::data {

double RngDraws::log_uniform(double low, double high) {
  return std::exp(rng_.uniform(std::log(low), std::log(high)));
}

/// Fisher and Yates' shuffle (Knuth, The Art of Computer Programming, 3.4.2 P).
std::vector<int64_t> RngDraws::permutation(int64_t count) {
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  for (int64_t i = count - 1; i > 0; --i)
    std::swap(numbers[static_cast<size_t>(i)], numbers[static_cast<size_t>(rng_.below(i + 1))]);
  return numbers;
}

at::Tensor RngDraws::normal(at::IntArrayRef shape) {
  at::Tensor numbers = at::empty(shape, at::kFloat);
  auto* number = numbers.mutable_data_ptr<float>();
  for (int64_t i = 0; i < numbers.numel(); ++i) number[i] = static_cast<float>(rng_.normal());
  return numbers;
}

/// Marsaglia, Tsang 2000; for shapes below 1 their note at the end of section 6.
double RngDraws::gamma(double shape) {
  if (shape < 1) return gamma(shape + 1) * std::pow(1 - rng_.uniform(), 1 / shape);
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = rng_.normal(), root = 1 + c * x;
    const double v = root * root * root;
    if (v > 0 && std::log(1 - rng_.uniform()) < x * x / 2 + d - d * v + d * std::log(v))
      return d * v;
  }
}

double RngDraws::beta(double alpha) {
  const double a = gamma(alpha), b = gamma(alpha);
  return a + b > 0 ? a / (a + b) : 0.5;
}

int64_t RngDraws::weighted(std::span<const double> weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  const double drawn = rng_.uniform() * sum;
  double below = 0;
  int64_t last = 0;  // of those that can be drawn: sums round
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0) continue;
    below += weights[i];
    last = static_cast<int64_t>(i);
    if (drawn < below) break;
  }
  return last;
}

double TorchDraws::uniform(double low, double high) {
  return at::empty({1}, at::kFloat).uniform_(low, high, generator_).item<float>();
}

double TorchDraws::log_uniform(double low, double high) {
  const auto log_of = [](double value) {
    return at::log(at::full({1}, value, at::kFloat)).item<float>();
  };
  return at::exp(at::empty({1}, at::kFloat).uniform_(log_of(low), log_of(high), generator_))
      .item<float>();
}

int64_t TorchDraws::integer(int64_t low, int64_t high) {
  return at::randint(low, high, {1}, generator_, at::kLong).item<int64_t>();
}

bool TorchDraws::is_below(double p) {
  return at::rand({1}, generator_, at::kFloat).item<float>() < static_cast<float>(p);
}

bool TorchDraws::is_at_most(double p) {
  return at::rand({1}, generator_, at::kFloat).item<float>() <= static_cast<float>(p);
}

std::vector<int64_t> TorchDraws::permutation(int64_t count) {
  const at::Tensor order = at::randperm(count, generator_, at::kLong);
  const auto* first = order.const_data_ptr<int64_t>();
  return {first, first + count};
}

at::Tensor TorchDraws::normal(at::IntArrayRef shape) {
  return at::empty(shape, at::kFloat).normal_(0, 1, generator_);
}

double TorchDraws::beta(double alpha) {
  return at::_sample_dirichlet(at::full({1, 2}, alpha, at::kFloat), generator_)
      .select(-1, 0)
      .item<float>();
}

/// As torchvision's RandomChoice: weights that add up to 1, in float32.
int64_t TorchDraws::weighted(std::span<const double> weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  at::Tensor shares = at::empty({static_cast<int64_t>(weights.size())}, at::kFloat);
  auto* share = shares.mutable_data_ptr<float>();
  for (const double weight : weights) *share++ = static_cast<float>(weight / sum);
  return at::multinomial(shares, 1, /*replacement=*/false, generator_).item<int64_t>();
}

TorchDraws torch_draws(uint64_t seed) {
  return TorchDraws(at::make_generator<at::CPUGeneratorImpl>(seed));
}

}  // namespace muster::data
