// Splits of a dataset: lists of indices, drawn from a seed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "muster/data/sets/subset_dataset.h"

namespace muster::data {

using SubsetList = std::vector<std::shared_ptr<const SubsetDataset>>;

/// Disjoint subsets of these sizes, in an order drawn from the seed: the samples of PyTorch's
/// random_split(whole, lengths, generator=torch.Generator().manual_seed(seed)). Throws a usage error
/// if the lengths do not add up to the dataset's size, or one is negative.
SubsetList random_split(const std::shared_ptr<const Dataset>& whole,
                        const std::vector<int64_t>& lengths,
                        uint64_t seed);

/// The same with as equal a share of each class as whole samples allow: of each class, in its own
/// order drawn from the seed, the first `fraction` (rounded to the nearest) are the second subset,
/// and the rest the first; both in the order of the dataset. `targets` // [N] int64, on the CPU: the
/// samples' classes. Throws a usage error for targets of another size or dtype, or a fraction outside
/// 0 … 1.
SubsetList stratified_split(const std::shared_ptr<const Dataset>& whole,
                            const at::Tensor& targets,
                            double fraction,
                            uint64_t seed);

}  // namespace muster::data
