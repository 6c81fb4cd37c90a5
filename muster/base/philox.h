// Random numbers by counter: the n-th one is a function of key and n, and needs none before it.
#pragma once

#include <array>
#include <cstdint>

namespace muster {

/// Philox 4x32 with 10 rounds. Source: Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers:
/// as easy as 1, 2, 3", section 3.3 and table 2; checked against the known answers of Random123.
std::array<uint32_t, 4> philox4x32_10(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

}  // namespace muster
