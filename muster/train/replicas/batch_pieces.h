// A batch cut by its samples, as the ranks of a pipeline see it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/data/dataset.h"

namespace muster::train {

/// Into how many pieces cut_by_samples() cuts a batch of so many samples: into `parts`, or fewer, of two
/// at least, since a batch normalisation needs two.
int64_t pieces_of_batch(int64_t samples, int64_t parts);

/// Rows of a batch as batches of their own: pieces_of_batch(), as even as can be. Throws a usage error that names `owner` for a
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
