// What a line counts or measures and does not say of itself: "failed samples: 0". Private to the room.
#pragma once

#include <cstddef>
#include <string_view>

namespace muster::diagnose {

/// Whether the words at [begin, end) name something that was counted, and is not there: "0 nan losses",
/// "nan iterations: 0", "out of memory errors = 0", "loss is nan: False".
bool is_counted_zero(std::string_view line, size_t begin, size_t end);

/// Whether the word of a failure at [begin, end) is a measured thing or one that was counted to none: "error: 0.034",
/// "failed samples: 0", "0 requests failed", "no errors".
bool is_quantity(std::string_view line, size_t begin, size_t end);

}  // namespace muster::diagnose
