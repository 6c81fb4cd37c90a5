#include "muster/distributed/meet/timeout.h"

#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::distributed {

std::chrono::milliseconds bounded_timeout(std::chrono::milliseconds timeout,
                                          const std::string& what) {
  if (timeout.count() < 1) {
    throw usage_error(
        {.refused = what, .rule = "1 ms at least", .value = concat(timeout.count(), " ms")});
  }
  return std::min(timeout, kLongestWait);
}

std::chrono::milliseconds own_timeout(std::chrono::milliseconds timeout, const std::string& what) {
  return timeout.count() == 0 ? timeout : bounded_timeout(timeout, what);
}

}  // namespace muster::distributed
