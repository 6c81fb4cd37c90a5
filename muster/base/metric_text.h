// A measured number as people read it.
#pragma once

#include <string>

namespace muster {

/// `digits` after the point, "0.9085", as long as that tells the value; what would read as nothing,
/// or as a row of digits, in powers of ten: "3.21e-05", "1.5e+12". Zero is "0.0000", NaN "nan". Pure.
std::string metric_text(double value, int digits = 4);

}  // namespace muster
