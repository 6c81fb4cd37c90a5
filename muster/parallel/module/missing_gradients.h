// What is said where parameters have no gradient to average.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/base/error.h"

namespace muster::parallel {

/// Names them: "rank 1: 2 parameters got no gradient in the last step: …". `when`: "in the last step", or
/// empty. A usage error.
Error missing_gradients(int rank,
                        const std::vector<std::string>& names,
                        std::string_view when,
                        std::string hint);

}  // namespace muster::parallel
