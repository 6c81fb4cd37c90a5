#include "muster/train/replicas/batch_pieces.h"

#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/parallel/pipeline/micro_batches.h"

namespace muster::train {

data::Batch rows_of(const data::Batch& batch,
                    int64_t begin,
                    int64_t end,
                    std::string_view owner,
                    const std::string& hint) {
  data::Batch piece;
  piece.indices.assign(batch.indices.begin() + begin, batch.indices.begin() + end);
  for (const auto& [name, tensor] : batch.tensors) {
    const bool has_rows = tensor.defined() && tensor.dim() > 0;
    if (has_rows && tensor.size(0) != batch.size()) {
      throw usage_error({.refused = concat(owner, ": \"", name, "\" of a batch"),
                         .rule = "it has a row for each sample, so that it can be cut",
                         .value = concat(tensor.size(0), " rows of ", batch.size(), " samples"),
                         .hint = hint});
    }
    piece.tensors.emplace_back(name, has_rows ? tensor.narrow(0, begin, end - begin) : tensor);
  }
  return piece;
}

int64_t pieces_of_batch(int64_t samples, int64_t parts) {
  return std::min(parts, std::max<int64_t>(1, samples / 2));
}

std::vector<data::Batch> cut_by_samples(const data::Batch& batch,
                                        int64_t parts,
                                        std::string_view owner) {
  std::vector<data::Batch> pieces;
  const int64_t count = pieces_of_batch(batch.size(), parts);
  int64_t begin = 0;
  for (const int64_t rows : parallel::rows_of_micro_batches(batch.size(), count)) {
    pieces.push_back(rows_of(batch, begin, begin + rows, owner, "take --strategy ddp or fsdp"));
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
