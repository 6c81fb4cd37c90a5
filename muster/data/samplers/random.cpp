#include "muster/data/samplers/random.h"

#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/samplers/permutation.h"

namespace muster::data {
namespace {

void append(std::vector<int64_t>& order, const std::vector<int64_t>& more, int64_t at_most) {
  order.insert(order.end(),
               more.begin(),
               more.begin() + std::min<int64_t>(at_most, static_cast<int64_t>(more.size())));
}

constexpr int64_t kChunk = 32;  // in which Python draws with replacement

std::vector<int64_t> draw(int64_t samples,
                          int64_t count,
                          bool replacement,
                          at::Generator generator) {
  std::vector<int64_t> order;
  order.reserve(static_cast<size_t>(count));
  while (static_cast<int64_t>(order.size()) < count) {
    const int64_t left = count - static_cast<int64_t>(order.size());
    append(order,
           replacement ? random_integers(samples, std::min(left, kChunk), generator)
                       : random_permutation(samples, generator),
           left);
  }
  return order;
}

}  // namespace

RandomSampler::RandomSampler(int64_t samples, RandomSamplerOptions options)
    : samples_(samples), options_(options) {
  check_samples(samples);
  if (options.num_samples.value_or(1) < 1) {
    throw usage_error({.refused = "random sampler",
                       .rule = "num_samples is at least 1",
                       .value = concat(*options.num_samples)});
  }
  if (samples == 0 && options.num_samples) {
    throw usage_error(
        {.refused = "random sampler", .rule = "num_samples needs a dataset that is not empty"});
  }
}

std::vector<int64_t> RandomSampler::indices(int64_t epoch, int64_t consumed) const {
  check_position(epoch, consumed);
  at::Generator generator = make_generator(options_.seed + static_cast<uint64_t>(epoch));
  return every_nth(draw(samples_, size(), options_.replacement, std::move(generator)), consumed, 1);
}

}  // namespace muster::data
