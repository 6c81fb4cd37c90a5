#include "muster/text/vocab/token_table.h"

#include <bit>

namespace muster::text {

void TokenTable::grow(size_t slots) {
  std::vector<Slot> old(slots);
  old.swap(slots_);
  mask_ = slots - 1;
  for (const Slot& slot : old) {
    if (slot.value == kNone) continue;
    const std::string_view token(bytes_.data() + slot.begin, slot.size);
    size_t at = hash_of(token) & mask_;
    while (slots_[at].value != kNone) at = (at + 1) & mask_;
    slots_[at] = slot;
  }
}

void TokenTable::reserve(size_t tokens, size_t bytes) {
  const size_t wanted = std::bit_ceil(tokens * 2 + 16);
  if (wanted > slots_.size()) grow(wanted);
  bytes_.reserve(bytes);
}

bool TokenTable::insert(std::string_view token, uint32_t value) {
  if (find(token) != kNone) return false;
  if ((used_ + 1) * 2 > slots_.size()) grow(slots_.empty() ? 16 : slots_.size() * 2);
  const uint64_t hash = hash_of(token);
  size_t at = hash & mask_;
  while (slots_[at].value != kNone) at = (at + 1) & mask_;
  slots_[at] = {
      bytes_.size(), static_cast<uint32_t>(token.size()), static_cast<uint32_t>(hash >> 32), value};
  bytes_ += token;
  ++used_;
  return true;
}

}  // namespace muster::text
