#include "muster/text/batch/token_batch.h"

#include <algorithm>
#include <limits>
#include <string>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::text {
namespace {

void check(const BatchOptions& options) {
  const auto refuse = [](const char* rule, int64_t value) {
    throw usage_error(
        {.refused = "options of a batch", .rule = rule, .value = std::to_string(value)});
  };
  if (options.max_length < 0) refuse("max_length is at least 1, or 0 for none", options.max_length);
  if (options.multiple_of < 1) refuse("multiple_of is at least 1", options.multiple_of);
  constexpr int64_t kWidest = int64_t{1} << 40;
  if (options.max_length > kWidest) refuse("max_length is at most 2^40", options.max_length);
  if (options.multiple_of > kWidest) refuse("multiple_of is at most 2^40", options.multiple_of);
  if (options.pad_to_max_length && options.max_length == 0)
    refuse("pad_to_max_length needs a max_length", options.max_length);
}

int64_t width_of(int64_t longest, const BatchOptions& options) {
  const int64_t width = options.pad_to_max_length ? options.max_length : longest;
  const int64_t rest = width % options.multiple_of;
  return rest == 0 ? width : width + (options.multiple_of - rest);
}

}  // namespace

std::span<const int64_t> TokenBatch::row(int64_t index) const {
  if (index < 0 || index >= rows) {
    throw usage_error({.refused = "a row of a batch",
                       .rule = concat("the batch has ", rows, " rows"),
                       .value = std::to_string(index)});
  }
  const int64_t length = lengths[static_cast<size_t>(index)];
  const int64_t first = index * width + (pad_side == Side::kLeft ? width - length : 0);
  return std::span(ids).subspan(static_cast<size_t>(first), static_cast<size_t>(length));
}

std::vector<uint8_t> TokenBatch::mask() const {
  std::vector<uint8_t> out(ids.size(), 0);
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t length = lengths[static_cast<size_t>(i)];
    const int64_t first = i * width + (pad_side == Side::kLeft ? width - length : 0);
    std::fill_n(out.begin() + first, length, uint8_t{1});
  }
  return out;
}

TokenBatch pad_batch(std::span<const std::vector<int64_t>> sequences, const BatchOptions& options) {
  check(options);
  TokenBatch batch;
  batch.rows = static_cast<int64_t>(sequences.size());
  batch.pad_side = options.pad_side;
  int64_t longest = 0;
  for (const std::vector<int64_t>& sequence : sequences) {
    auto length = static_cast<int64_t>(sequence.size());
    if (options.max_length > 0) length = std::min(length, options.max_length);
    batch.lengths.push_back(length);
    longest = std::max(longest, length);
  }
  batch.width = width_of(longest, options);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 16;
  if (batch.rows > 0 && batch.width > kMost / batch.rows) {
    throw usage_error({.refused = "a batch",
                       .rule = "rows * width fits into memory",
                       .value = concat(batch.rows, " * ", batch.width)});
  }
  batch.ids.assign(static_cast<size_t>(batch.rows * batch.width), options.pad_value);
  for (int64_t i = 0; i < batch.rows; ++i) {
    const std::vector<int64_t>& sequence = sequences[static_cast<size_t>(i)];
    const int64_t length = batch.lengths[static_cast<size_t>(i)];
    const auto from =
        options.truncate_side == Side::kLeft ? sequence.end() - length : sequence.begin();
    const int64_t first =
        i * batch.width + (batch.pad_side == Side::kLeft ? batch.width - length : 0);
    std::copy_n(from, length, batch.ids.begin() + first);
  }
  return batch;
}

}  // namespace muster::text
