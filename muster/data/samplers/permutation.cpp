#include "muster/data/samplers/permutation.h"

#include <numeric>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randperm.h>

namespace muster::data {
namespace {

std::vector<int64_t> to_vector(const at::Tensor& tensor) {
  const int64_t* start = tensor.const_data_ptr<int64_t>();
  return {start, start + tensor.numel()};
}

}  // namespace

at::Generator make_generator(uint64_t seed) {
  return at::make_generator<at::CPUGeneratorImpl>(seed);
}

std::vector<int64_t> random_permutation(int64_t samples, at::Generator& generator) {
  return to_vector(at::randperm(samples, generator, at::kLong));
}

std::vector<int64_t> random_integers(int64_t high, int64_t count, at::Generator& generator) {
  return to_vector(at::randint(high, {count}, generator, at::kLong));
}

std::vector<int64_t> counting(int64_t samples) {
  std::vector<int64_t> order(static_cast<size_t>(samples));
  std::iota(order.begin(), order.end(), int64_t{0});
  return order;
}

}  // namespace muster::data
