// A failure of which the backend cannot say who began it.
#pragma once

#include "muster/base/error.h"

namespace muster::distributed {

/// Thrown by a backend that names culprits as a rule (BackendEntry::names_culprits), when it cannot, and
/// when its group has failed with that: the monitor then looks for who began it, as it does for
/// backends that never know, before it says anything.
class NamelessError : public Error {
 public:
  explicit NamelessError(const ErrorText& text) : Error(ErrorKind::kEnvironment, text) {}
};

}  // namespace muster::distributed
