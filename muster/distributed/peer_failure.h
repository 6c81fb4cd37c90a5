// The error of a rank that is fine itself.
#pragma once

#include "muster/base/error.h"

namespace muster::distributed {

/// Another rank has told why it failed, in words that are in this error, and all that were told go on
/// together: who catches it on one rank does so on all of them.
class PeerFailure : public Error {
 public:
  explicit PeerFailure(const Error& told) : Error(told) {}
};

}  // namespace muster::distributed
