// The functions that draw, by which expressions and domains name a distribution.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "muster/tune/space/domain.h"

namespace muster::tune {

/// `usage` is for errors; `least` and `most` count the arguments, `most` 0 is any number.
struct DrawFunction {
  std::string_view name, usage;
  size_t least, most;
  Domain (*make)(const std::vector<Value>& arguments);  ///< throws as the function of that name
};

std::span<const DrawFunction> draw_functions();

/// By name, or null.
const DrawFunction* find_draw(std::string_view name);

}  // namespace muster::tune
