// Amounts as people write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace muster::tune {

/// "512 MiB", "2GiB", "1.5GB", "64k" in bytes (rounded to whole ones); nothing for anything else.
/// K, M, G, T with iB or nothing are powers of 1024, with B powers of 1000; B alone is bytes.
std::optional<uint64_t> bytes_of(std::string_view text);

}  // namespace muster::tune
