// Random orders as Python's samplers draw them.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Generator.h>

namespace muster::data {

/// torch.Generator().manual_seed(seed): a CPU generator of its own.
at::Generator make_generator(uint64_t seed);

/// torch.randperm(samples, generator=generator).tolist()
std::vector<int64_t> random_permutation(int64_t samples, at::Generator& generator);

/// torch.randint(high, (count,), dtype=torch.int64, generator=generator).tolist()
std::vector<int64_t> random_integers(int64_t high, int64_t count, at::Generator& generator);

/// 0 … samples-1
std::vector<int64_t> counting(int64_t samples);

}  // namespace muster::data
