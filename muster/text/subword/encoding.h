// What a tokenizer makes of a text, and the two sections that shape it: truncation and padding.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "muster/text/batch/token_batch.h"

namespace muster::text {

struct TextSpan {
  uint32_t begin = 0;
  uint32_t end = 0;

  bool operator==(const TextSpan&) const = default;
};

/// All vectors have an entry for each token.
struct Encoding {
  std::vector<uint32_t> ids;
  std::vector<uint32_t> type_ids;            ///< 0, and 1 for the second of two texts
  std::vector<TextSpan> offsets;             ///< of the text; {0, 0} for special tokens and padding
  std::vector<int32_t> words;                ///< which word of the text, -1 for none
  std::vector<uint8_t> special_tokens_mask;  ///< 1: put there by the post-processor, or padding
  std::vector<uint8_t> attention_mask;       ///< 0: padding
  std::vector<Encoding> overflowing;         ///< what truncation cut off, in overlapping parts

  size_t size() const { return ids.size(); }
};

enum class TruncationStrategy : uint8_t { kLongestFirst, kOnlyFirst, kOnlySecond };

/// Special tokens count, too.
struct Truncation {
  uint32_t max_length = 512;
  uint32_t stride = 0;  ///< by how much the parts of `overflowing` overlap
  TruncationStrategy strategy = TruncationStrategy::kLongestFirst;
  Side side = Side::kRight;  ///< the end that is cut off
};

struct Padding {
  uint32_t fixed_length = 0;  ///< 0: as long as the longest of the batch
  uint32_t multiple_of = 0;   ///< 0: any length
  uint32_t pad_id = 0;
  uint32_t pad_type_id = 0;
  Side side = Side::kRight;
};

/// The ids as a rectangle; `options` pad and cut what Padding and Truncation did not.
TokenBatch batch_of(std::span<const Encoding> encodings, const BatchOptions& options);

/// Behind `to`, as `tokenizers` merges encodings: overflowing parts are combined with each other.
void append_encoding(Encoding& to, const Encoding& from);

/// Keeps `length` tokens; the others, in parts of at most `length`, become `overflowing`.
void truncate_encoding(Encoding& encoding, uint32_t length, uint32_t stride, Side side);

void pad_encodings(std::span<Encoding> encodings, const Padding& padding);

}  // namespace muster::text
