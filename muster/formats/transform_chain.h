// A chain of transforms as a user names it.
#pragma once

#include <string_view>
#include <vector>

#include "muster/base/params.h"

namespace muster::formats {

/// "random_crop:size=28,padding=2|normalize": specs with a bar between them, blanks around them
/// allowed. Empty for an empty text. Throws a usage error for a step without a name, or as
/// parse_spec.
std::vector<Spec> parse_transform_chain(std::string_view text);

}  // namespace muster::formats
