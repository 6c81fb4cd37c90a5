#include "muster/train/replicas/batch_pieces.h"

#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/parallel/pipeline/micro_batches.h"

namespace muster::train {

std::vector<data::Batch> cut_by_samples(const data::Batch& batch,
                                        int64_t parts,
                                        std::string_view owner) {
  std::vector<data::Batch> pieces;
  const int64_t most = std::max<int64_t>(1, batch.size() / 2);
  int64_t begin = 0;
  for (const int64_t rows : parallel::rows_of_micro_batches(batch.size(), std::min(parts, most))) {
    data::Batch& piece = pieces.emplace_back();
    piece.indices.assign(batch.indices.begin() + begin, batch.indices.begin() + begin + rows);
    for (const auto& [name, tensor] : batch.tensors) {
      const bool has_rows = tensor.defined() && tensor.dim() > 0;
      if (has_rows && tensor.size(0) != batch.size()) {
        throw usage_error({.refused = concat(owner, ": \"", name, "\" of a batch"),
                           .rule = "it has a row for each sample, so that it can be cut",
                           .value = concat(tensor.size(0), " rows of ", batch.size(), " samples"),
                           .hint = "take --strategy ddp or fsdp"});
      }
      piece.tensors.emplace_back(name, has_rows ? tensor.narrow(0, begin, rows) : tensor);
    }
    begin += rows;
  }
  return pieces;
}

uint64_t seed_of_piece(const data::Batch& piece, int64_t step, int64_t run_seed) {
  uint64_t seed = 0x9E3779B97F4A7C15;
  const auto mix = [&](int64_t number) {
    seed = (seed ^ static_cast<uint64_t>(number)) * 0xBF58476D1CE4E5B9;
    seed ^= seed >> 31;
  };
  mix(run_seed);
  mix(step);
  for (const int64_t index : piece.indices) mix(index);
  return seed;
}

}  // namespace muster::train
