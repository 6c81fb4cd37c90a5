// What the fuzz targets share. A target is a function that any driver may call: libFuzzer's
// (`make fuzz`, clang) or replay_main.cpp (`make test`, any compiler).
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace muster::fuzz {

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Ends the process, which every driver counts as a finding.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "property does not hold: %s\n", what);
  std::abort();
}

}  // namespace muster::fuzz
