// Numbers of things, for people.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "muster/base/text.h"

namespace muster {

/// counted(2, "micro-batch", "micro-batches") == "2 micro-batches".
inline std::string counted(int64_t count, std::string_view one, std::string_view several) {
  return concat(count, ' ', count == 1 ? one : several);
}

/// "1 epoch", "2 epochs".
inline std::string counted(int64_t count, std::string_view one) {
  return counted(count, one, concat(one, 's'));
}

}  // namespace muster
