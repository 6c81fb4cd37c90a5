// Numbers of things, for people.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "muster/base/text.h"

namespace muster::train {

/// "1 epoch", "2 epochs".
inline std::string counted(int64_t count, std::string_view one) {
  return concat(count, ' ', one, count == 1 ? "" : "s");
}

}  // namespace muster::train
