// Numbers that are none, for tests of what is done with them.
#pragma once

#include <limits>

namespace muster::test {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();

}  // namespace muster::test
