// A batch cut by its samples, as the ranks of a pipeline see it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "muster/data/dataset.h"

namespace muster::train {

/// Rows of a batch as batches of their own: `parts`, as even as can be, of two rows at least where it
/// has as many, since a batch normalisation needs two. Throws a usage error that names `owner` for a
/// tensor that has no row for each sample.
std::vector<data::Batch> cut_by_samples(const data::Batch& batch,
                                        int64_t parts,
                                        std::string_view owner);

/// For what is drawn from in a step on a piece: the same on all ranks that see it, and another one
/// in each step and run.
uint64_t seed_of_piece(const data::Batch& piece, int64_t step, int64_t run_seed);

}  // namespace muster::train
