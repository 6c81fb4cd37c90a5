// Amounts as people write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace muster::tune {

/// "90s", "10m", "1h30m", "1.5 d", "2 h 5 m" in seconds; nothing for anything else. Units are d, h,
/// m, s and ms, each once and the longer ones first; a number without a unit is not taken.
std::optional<double> duration_s(std::string_view text);

/// "512 MiB", "2GiB", "1.5GB", "64k" in bytes (rounded to whole ones); nothing for anything else.
/// K, M, G, T with iB or nothing are powers of 1024, with B powers of 1000; B alone is bytes.
std::optional<uint64_t> bytes_of(std::string_view text);

}  // namespace muster::tune
