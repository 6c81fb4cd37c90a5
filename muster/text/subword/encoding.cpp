#include "muster/text/subword/encoding.h"

#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::text {
namespace {

/// Calls `action` for each of the vectors, and what stands there for padding.
template <class Encoded, class Action>
void for_each_field(Encoded& encoding, const Padding& padding, Action action) {
  action(encoding.ids, padding.pad_id);
  action(encoding.type_ids, padding.pad_type_id);
  action(encoding.offsets, TextSpan{});
  action(encoding.words, int32_t{-1});
  action(encoding.special_tokens_mask, uint8_t{1});
  action(encoding.attention_mask, uint8_t{0});
}

template <class T>
void append_range(std::vector<T>& to, const std::vector<T>& from, size_t begin, size_t end) {
  to.insert(to.end(),
            from.begin() + static_cast<ptrdiff_t>(begin),
            from.begin() + static_cast<ptrdiff_t>(end));
}

void append_tokens(Encoding& to, const Encoding& from, size_t begin, size_t end) {
  append_range(to.ids, from.ids, begin, end);
  append_range(to.type_ids, from.type_ids, begin, end);
  append_range(to.offsets, from.offsets, begin, end);
  append_range(to.words, from.words, begin, end);
  append_range(to.special_tokens_mask, from.special_tokens_mask, begin, end);
  append_range(to.attention_mask, from.attention_mask, begin, end);
}

void pad_encoding(Encoding& encoding, size_t length, const Padding& padding) {
  for (Encoding& part : encoding.overflowing) pad_encoding(part, length, padding);
  if (encoding.size() >= length) return;
  const size_t missing = length - encoding.size();
  for_each_field(encoding, padding, [&](auto& field, auto value) {
    field.insert(padding.side == Side::kLeft ? field.begin() : field.end(), missing, value);
  });
}

}  // namespace

void append_encoding(Encoding& to, const Encoding& from) {
  std::vector<Encoding> overflowing;
  const auto combine = [&](const Encoding& first, const Encoding& second) {
    Encoding both = first;
    append_encoding(both, second);
    overflowing.push_back(std::move(both));
  };
  for (const Encoding& part : to.overflowing) {
    combine(part, from);
    for (const Encoding& other : from.overflowing) combine(part, other);
  }
  if (!from.overflowing.empty()) {
    Encoding first = to;
    for (const Encoding& other : from.overflowing) combine(first, other);
  }
  append_tokens(to, from, 0, from.size());
  to.overflowing = std::move(overflowing);
}

void truncate_encoding(Encoding& encoding, uint32_t length, uint32_t stride, Side side) {
  const size_t size = encoding.size();
  if (length >= size) return;
  if (length == 0) {
    Encoding all = std::move(encoding);
    encoding = Encoding();
    encoding.overflowing.push_back(std::move(all));
    return;
  }
  if (stride >= length) {
    throw usage_error(
        {.refused = "truncation of a text",
         .rule =
             concat("the stride is less than the ", length, " tokens that are left to the text"),
         .value = std::to_string(stride),
         .hint = {}});
  }
  Encoding kept;
  const size_t step = length - stride;
  bool first = true;
  for (size_t done = 0;; done += step) {
    const size_t begin = side == Side::kRight ? done : size - std::min(size, done + length);
    const size_t end = side == Side::kRight ? std::min(size, done + length) : size - done;
    Encoding part;
    append_tokens(part, encoding, begin, end);
    if (first) {
      kept = std::move(part);
    } else {
      kept.overflowing.push_back(std::move(part));
    }
    first = false;
    if (side == Side::kRight ? end == size : begin == 0) break;
  }
  encoding = std::move(kept);
}

void pad_encodings(std::span<Encoding> encodings, const Padding& padding) {
  size_t length = padding.fixed_length;
  if (length == 0) {
    for (const Encoding& encoding : encodings) length = std::max(length, encoding.size());
  }
  if (padding.multiple_of > 0 && length % padding.multiple_of > 0)
    length += padding.multiple_of - length % padding.multiple_of;
  for (Encoding& encoding : encodings) pad_encoding(encoding, length, padding);
}

TokenBatch batch_of(std::span<const Encoding> encodings, const BatchOptions& options) {
  std::vector<std::vector<int64_t>> rows;
  rows.reserve(encodings.size());
  for (const Encoding& encoding : encodings) {
    std::vector<int64_t>& row = rows.emplace_back();
    for (size_t i = 0; i < encoding.size(); ++i) {
      if (encoding.attention_mask[i] != 0) row.push_back(encoding.ids[i]);
    }
  }
  return pad_batch(rows, options);
}

}  // namespace muster::text
