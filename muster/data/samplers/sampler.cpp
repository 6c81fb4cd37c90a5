#include "muster/data/samplers/sampler.h"

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::data {

void check_position(int64_t epoch, int64_t consumed) {
  if (epoch < 0) {
    throw usage_error(
        {.refused = "epoch of a sampler", .rule = "epochs count from 0", .value = concat(epoch)});
  }
  if (consumed < 0) {
    throw usage_error(
        {.refused = "position in an epoch", .rule = "it is at least 0", .value = concat(consumed)});
  }
}

void check_samples(int64_t samples) {
  if (samples >= 0) return;
  throw usage_error({.refused = "sampler",
                     .rule = "the number of samples is at least 0",
                     .value = concat(samples)});
}

void check_rank(int64_t world_size, int64_t rank) {
  if (world_size < 1) {
    throw usage_error({.refused = "sampler",
                       .rule = "the world size is at least 1",
                       .value = concat(world_size)});
  }
  if (rank < 0 || rank >= world_size) {
    throw usage_error({.refused = "sampler",
                       .rule = concat("ranks run from 0 to ", world_size - 1),
                       .value = concat("rank ", rank)});
  }
}

std::vector<int64_t> every_nth(const std::vector<int64_t>& order, int64_t first, int64_t step) {
  std::vector<int64_t> out;
  const auto size = static_cast<int64_t>(order.size());
  if (first < size) out.reserve(static_cast<size_t>((size - first + step - 1) / step));
  for (int64_t i = first; i < size; i += step) out.push_back(order[static_cast<size_t>(i)]);
  return out;
}

}  // namespace muster::data
