// A port for rank 0's store.
#pragma once

#include <cstdint>

namespace muster::launch {

/// A TCP port that nobody on this machine listens on right now, over IPv4 and IPv6. Another process
/// can take it before rank 0 does; the launcher then tries again (Note [Lost port]). Throws an
/// environment error if there is none.
int64_t free_port();

}  // namespace muster::launch
