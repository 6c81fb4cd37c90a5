// A chain of transforms as a user names it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/base/params.h"

namespace muster::formats {

/// One step: "random_crop:size=28,padding=2", or with steps of its own between name and parameters,
/// "one_of(random_invert|grayscale):p=0.3".
struct ChainStep {
  std::string name;
  ParamValues params;
  std::vector<ChainStep> inside;
};

/// "random_crop:size=28,padding=2|one_of(random_invert|grayscale):p=0.3": steps with a bar between
/// them, blanks and line ends around them allowed; parentheses stand at most kMaxChainDepth deep.
/// Empty for an empty text. Throws a usage error for a step without a name, parentheses without a
/// step, without their other half or in another place, or as parse_spec.
std::vector<ChainStep> parse_transform_chain(std::string_view text);

inline constexpr int kMaxChainDepth = 16;

}  // namespace muster::formats
