// What can be done with a distribution: drawn from, asked for its values, written down. Numbers are
// those of Point: the value itself, or the index of a category.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/tune/space/domain.h"

namespace muster::tune {

/// A number of the distribution for 128 random bits.
double draw(const Distribution& distribution, const std::array<uint32_t, 4>& bits);

/// The value that a number stands for. Throws a usage error for a number that is none of the
/// distribution's kind: not finite, not whole, or no index. Bounds are the searchers' business.
Value value_of(const Distribution& distribution, double number);

/// The number of a value, or nothing if the distribution does not have it. 1 and 1.0 are one value
/// here, so that JSON from elsewhere is understood.
std::optional<double> number_of(const Distribution& distribution, const Value& value);

/// All numbers, rising; nothing if there are more than `limit` or no end of them.
std::optional<std::vector<double>> numbers_of(const Distribution& distribution, size_t limit);

/// The lowest and the highest number; the unlikely ones of a normal distribution.
std::array<double, 2> ends_of(const Distribution& distribution);

/// As a user writes it: "uniform(0, 1)", "choice(2, 'adam')". `list` names the function of a
/// categorical one: "choice" or "grid_search".
std::string distribution_text(const Distribution& distribution, std::string_view list = "choice");

/// A value as it stands in an expression: 3, 0.1, true, 'adam' with quotes and escapes.
std::string literal(const Value& value);

/// True for two equal values, where 1 equals 1.0.
bool same_value(const Value& a, const Value& b);

/// step · k, rounded so that 3 steps of 0.1 are 0.3 and not 0.30000000000000004.
double multiple_of(double step, double k);

}  // namespace muster::tune
