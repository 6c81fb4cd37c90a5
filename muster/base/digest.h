// Tells texts apart that are too long to be sent or stored.
#pragma once

#include <cstdint>
#include <string_view>

namespace muster {

/// FNV-1a of 64 bits: the same on every machine and with every standard library, which std::hash is not.
/// For texts that differ by chance: who wants two with one digest can make them.
/// http://www.isthe.com/chongo/tech/comp/fnv/
constexpr uint64_t digest_of(std::string_view text) {
  uint64_t digest = 0xcbf29ce484222325;
  for (const char c : text) digest = (digest ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return digest;
}

}  // namespace muster
