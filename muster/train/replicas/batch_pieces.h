// A batch cut by its samples, as the ranks of a pipeline see it.
#pragma once

#include <cstdint>
#include <string>
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

/// Rows `begin` to `end` of a batch, views of it. Throws a usage error as cut_by_samples().
data::Batch rows_of(const data::Batch& batch,
                    int64_t begin,
                    int64_t end,
                    std::string_view owner,
                    const std::string& hint);

/// For what is drawn from in a step on a piece: the same on all ranks that see it, and another one
/// in each step and run.
uint64_t seed_of_piece(const data::Batch& piece, int64_t step, int64_t run_seed);

}  // namespace muster::train
