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

/// `count` of 0 … samples-1, sorted: the last part of PyTorch's random_split of that size. Throws a
/// usage error for a count outside 0 … samples.
std::vector<int64_t> random_sample(int64_t samples, int64_t count, uint64_t seed);

/// `count` samples, sorted, of each class as many as its share, rounded so that they add up: first
/// down, then one more for those that lost most by it, the lower class before the higher. Which ones
/// is drawn class by class. `targets` as in stratified_split(). Throws as the others.
std::vector<int64_t> stratified_sample(const at::Tensor& targets, int64_t count, uint64_t seed);

/// What is left, and what is held out, both in the order of the dataset. Throws a usage error for a
/// number that is there twice, or none of the dataset's.
SubsetList hold_out(const std::shared_ptr<const Dataset>& whole, std::vector<int64_t> held_out);

}  // namespace muster::data
