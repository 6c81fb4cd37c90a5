// A port for rank 0's store.
#pragma once

#include <cstdint>

#include "muster/base/file.h"

namespace muster::launch {

/// A TCP port that nobody on this machine listens on, over IPv4 and IPv6.
struct FreePort {
  int64_t number = 0;
  /// Bound to it, and does not listen: as long as it is open, the kernel gives the port to nobody who
  /// asks for any, nor to an outgoing connection. Who asks for this one, with SO_REUSEADDR as servers
  /// do (LibTorch's among them), gets it. See Note [Lost port].
  UniqueFd hold;
};

/// Throws an environment error if there is none.
FreePort free_port();

}  // namespace muster::launch
