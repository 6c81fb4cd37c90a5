#include "muster/text/subword/aligned_text.h"

#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/text/unicode/utf8.h"

namespace muster::text {

void AlignedText::start(std::string_view original) {
  text_ = original;
  original_bytes_ = original.size();
  own_.clear();
  spans_.clear();
  in_place_ = true;
}

ByteSpan AlignedText::span_at(uint32_t at) const {
  if (!in_place_) return spans_[at];
  uint32_t begin = at, end = at + 1;
  while (begin > 0 && !starts_code_point(text_[begin])) --begin;
  while (end < text_.size() && !starts_code_point(text_[end])) ++end;
  return {begin, end};
}

ByteSpan AlignedText::original(uint32_t begin, uint32_t end) const {
  return {span_at(begin).begin, span_at(end - 1).end};
}

uint32_t AlignedText::original_begin(const Piece& piece) const {
  return piece.begin < piece.end ? span_at(piece.begin).begin : 0;
}

Rewriter::Rewriter(const AlignedText& from, AlignedText& to) : from_(from), to_(to) {
  to_.own_.clear();
  to_.spans_.clear();
  to_.in_place_ = from.in_place_;
  to_.original_bytes_ = from.original_bytes_;
}

void Rewriter::check_growth() const {
  constexpr size_t kMostTimes = 64, kMostMore = 65536;
  const size_t limit =
      std::min<size_t>(to_.original_bytes_ * kMostTimes + kMostMore, UINT32_MAX - 1);
  if (to_.own_.size() <= limit) return;
  throw environment_error({.refused = "a text in the hands of a tokenizer's normalizers",
                           .rule = concat("it grows to at most ", limit, " bytes"),
                           .value = std::to_string(to_.own_.size()),
                           .hint = {}});
}

void Rewriter::store_spans() {
  if (!to_.in_place_) return;
  to_.in_place_ = false;
  // So far every byte is where it was in the old text.
  for (uint32_t at = 0; at < size(); ++at) to_.spans_.push_back(from_.span_at(at));
}

void Rewriter::keep(uint32_t begin, uint32_t end) {
  if (begin == end) return;
  if (to_.in_place_ && begin != size()) store_spans();
  to_.own_.append(from_.text_.substr(begin, end - begin));
  if (to_.in_place_) return;
  if (!from_.in_place_) {
    to_.spans_.insert(to_.spans_.end(), from_.spans_.begin() + begin, from_.spans_.begin() + end);
    return;
  }
  for (uint32_t at = begin; at < end;) {
    if (static_cast<uint8_t>(from_.text_[at]) < 0x80) {
      to_.spans_.push_back({at, at + 1});
      ++at;
      continue;
    }
    const ByteSpan span = from_.span_at(at);
    for (; at < std::min(end, span.end); ++at) to_.spans_.push_back(span);
  }
}

void Rewriter::replace_ascii(uint32_t at, char c) {
  if (to_.in_place_ && at != size()) store_spans();
  to_.own_.push_back(c);
  if (!to_.in_place_) to_.spans_.push_back(from_.span_at(at));
}

void Rewriter::put(std::string_view text, ByteSpan span) {
  store_spans();
  to_.own_.append(text);
  to_.spans_.insert(to_.spans_.end(), text.size(), span);
  check_growth();
}

void Rewriter::change(const Piece& piece,
                      uint32_t begin,
                      uint32_t skipped,
                      const std::vector<Change>& changes) {
  store_spans();
  const auto bytes_at = [&](uint32_t at) -> uint32_t {
    return at < piece.end ? first_code_point(from_.text_.substr(at)).bytes : 0;
  };
  uint32_t at = begin + skipped;
  for (const Change& next : changes) {
    ByteSpan span;
    if (next.change <= 0) {
      if (at < piece.end) span = from_.span_at(at);
      at += bytes_at(at);
      for (int removed = 0; removed < -next.change; ++removed) at += bytes_at(at);
    } else if (at > piece.begin) {
      span = from_.span_at(at - 1);
    } else {
      const uint32_t start = from_.original_begin(piece);
      span = {start, start};
    }
    append_utf8(to_.own_, next.c);
    to_.spans_.resize(to_.own_.size(), span);
  }
  check_growth();
}

void Rewriter::commit() { to_.text_ = to_.own_; }

}  // namespace muster::text
