#include "muster/memory/snapshot/pickle_writer.h"

#include <limits>
#include <utility>

namespace muster::memory {
namespace {

constexpr size_t kBatch = 1000, kFlushBytes = size_t{1} << 16;

// Opcodes.
constexpr char kProto = '\x80', kMark = '(', kStop = '.';
constexpr char kEmptyDict = '}', kSetItems = 'u', kEmptyList = ']', kAppends = 'e';
constexpr char kBinInt = 'J', kLong1 = '\x8a', kBinUnicode = 'X';
constexpr char kLongBinPut = 'r', kLongBinGet = 'j';

}  // namespace

PickleWriter::PickleWriter(Write write) : write_(std::move(write)) {
  op(kProto);
  op('\x02');
}

void PickleWriter::put(std::string_view bytes) {
  buffer_ += bytes;
  if (buffer_.size() >= kFlushBytes) flush();
}

void PickleWriter::flush() {
  if (!buffer_.empty()) write_(buffer_);
  buffer_.clear();
}

void PickleWriter::put_u32(uint32_t value) {
  for (int i = 0; i < 4; ++i, value >>= 8) op(static_cast<char>(value & 0xFF));
}

/// Items of a list come in batches, each between a mark and an opcode that appends it.
void PickleWriter::value_begins() {
  if (open_.empty() || !open_.back().is_list) return;
  Open& list = open_.back();
  if (list.items > 0 && list.items % kBatch == 0) op(kAppends);
  if (list.items % kBatch == 0) op(kMark);
  ++list.items;
}

void PickleWriter::number(int64_t value) {
  value_begins();
  if (value >= std::numeric_limits<int32_t>::min() &&
      value <= std::numeric_limits<int32_t>::max()) {
    op(kBinInt);
    put_u32(static_cast<uint32_t>(static_cast<int32_t>(value)));
    return;
  }
  op(kLong1);
  op('\x08');
  const auto bits = static_cast<uint64_t>(value);
  put_u32(static_cast<uint32_t>(bits));
  put_u32(static_cast<uint32_t>(bits >> 32));
}

void PickleWriter::put_text(std::string_view text) {
  const auto [at, is_new] = texts_.try_emplace(std::string(text), remembered_);
  if (!is_new) {
    op(kLongBinGet);
    put_u32(at->second);
    return;
  }
  op(kBinUnicode);
  put_u32(static_cast<uint32_t>(text.size()));
  put(text);
  remember();
}

void PickleWriter::text(std::string_view text) {
  value_begins();
  put_text(text);
}

void PickleWriter::text_of_key(std::string_view name) {
  Open& dict = open_.back();
  if (dict.items++ == 0) op(kMark);
  put_text(name);
}

void PickleWriter::begin_list() {
  value_begins();
  op(kEmptyList);
  open_.push_back({.is_list = true});
}

void PickleWriter::end_list() {
  if (open_.back().items > 0) op(kAppends);
  open_.pop_back();
}

void PickleWriter::begin_dict() {
  value_begins();
  op(kEmptyDict);
  open_.push_back({.is_list = false});
}

void PickleWriter::end_dict() {
  if (open_.back().items > 0) op(kSetItems);
  open_.pop_back();
}

uint32_t PickleWriter::remember() {
  op(kLongBinPut);
  put_u32(remembered_);
  return remembered_++;
}

void PickleWriter::again(uint32_t remembered) {
  value_begins();
  op(kLongBinGet);
  put_u32(remembered);
}

void PickleWriter::end() {
  op(kStop);
  flush();
}

}  // namespace muster::memory
