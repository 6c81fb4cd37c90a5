#include "muster/data/samplers/sequential.h"

#include "muster/data/samplers/permutation.h"

namespace muster::data {

SequentialSampler::SequentialSampler(int64_t samples) : samples_(samples) {
  check_samples(samples);
}

std::vector<int64_t> SequentialSampler::indices(int64_t epoch, int64_t consumed) const {
  check_position(epoch, consumed);
  return every_nth(counting(samples_), consumed, 1);
}

}  // namespace muster::data
