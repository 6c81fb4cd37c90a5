// Times, numbers and values as Python writes them, for files that Optuna, Ray and pandas read.
#pragma once

#include <string>
#include <string_view>

#include "muster/tune/space/value.h"

namespace muster::tune {

/// Seconds since 1970 as "2026-11-21 17:20:09.680195", UTC; and back, 0 for anything else.
std::string to_datetime(double time_s);
double from_datetime(std::string_view text);

/// Python's repr() of a float, as json.dumps writes it: 1e-05, 0.1, 1.0, NaN, Infinity.
std::string python_number(double value);

/// A value as json.dumps writes it; what is not ASCII is escaped.
std::string python_json(const Value& value);

}  // namespace muster::tune
