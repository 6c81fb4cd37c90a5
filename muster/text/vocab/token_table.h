// Strings to numbers, for look-ups of every word of a text: one block of memory for all strings.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::text {

/// A 64-bit hash of short strings. Not for use where somebody picks strings that collide: those cost
/// time, no more.
inline uint64_t hash_of(std::string_view text) {
  constexpr uint64_t kOdd1 = 0x9E3779B97F4A7C15U, kOdd2 = 0xD6E8FEB86659FD93U;
  const auto load = [](const char* at, size_t bytes) {
    uint64_t word = 0;
    std::memcpy(&word, at, bytes);
    return word;
  };
  const char* at = text.data();
  size_t left = text.size();
  uint64_t hash = left * kOdd1;
  for (; left >= 8; left -= 8, at += 8) {
    hash = (hash ^ load(at, 8)) * kOdd2;
    hash ^= hash >> 32;
  }
  if (left > 0) {
    uint64_t rest = 0;
    if (left >= 4) {
      rest = load(at, 4) | load(at + left - 4, 4) << 32;
    } else {
      rest = load(at, 1) | load(at + left / 2, 1) << 8 | load(at + left - 1, 1) << 16;
    }
    hash = (hash ^ rest) * kOdd2;
    hash ^= hash >> 32;
  }
  return hash * kOdd1 ^ hash >> 29;
}

/// Open addressing with linear steps, at most half full.
class TokenTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  /// Of a string that is not there: kNone.
  uint32_t find(std::string_view token) const {
    if (slots_.empty()) return kNone;
    const uint64_t hash = hash_of(token);
    for (size_t at = hash & mask_;; at = (at + 1) & mask_) {
      const Slot& slot = slots_[at];
      if (slot.value == kNone) return kNone;
      if (slot.tag == static_cast<uint32_t>(hash >> 32) && slot.size == token.size() &&
          std::memcmp(bytes_.data() + slot.begin, token.data(), token.size()) == 0)
        return slot.value;
    }
  }

  /// False, and nothing changes, if the string is there. `value` is not kNone.
  bool insert(std::string_view token, uint32_t value);

  void reserve(size_t tokens, size_t bytes);
  size_t size() const { return used_; }

 private:
  struct Slot {
    uint64_t begin = 0;  // of its bytes
    uint32_t size = 0;
    uint32_t tag = 0;
    uint32_t value = kNone;
  };

  void grow(size_t slots);

  std::vector<Slot> slots_;
  std::string bytes_;
  size_t mask_ = 0;
  size_t used_ = 0;
};

}  // namespace muster::text
