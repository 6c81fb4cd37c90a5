// How evenly classes are filled.
#pragma once

#include <cstdint>
#include <span>

namespace muster::formats {

/// How many times the smallest class the largest one is; 0 without classes, or if one has no sample.
double class_imbalance(std::span<const int64_t> samples);

}  // namespace muster::formats
