// The hash that the goldens of this room use.
#pragma once

#include <cstdint>
#include <iomanip>
#include <sstream>
#include <string>

namespace muster::data {

/// FNV-1a over whole elements, as sixteen hexadecimal digits. See
/// tests/golden/sampler/make_golden.py.
template <class Range>
std::string fnv(const Range& values) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const auto value : values) hash = (hash ^ static_cast<uint64_t>(value)) * 0x100000001b3;
  std::ostringstream out;
  out << std::hex << std::setw(16) << std::setfill('0') << hash;
  return out.str();
}

}  // namespace muster::data
