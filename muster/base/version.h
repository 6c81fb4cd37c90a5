// Which Muster this is.
#pragma once

#include <string_view>

namespace muster {

/// "0.9.0".
std::string_view version();

}  // namespace muster
