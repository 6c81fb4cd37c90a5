// Whether those that a process talks to are still there, as the kernel of its machine knows. Private to
// the room.
#pragma once

#include <cstdint>

#include <sys/types.h>

namespace muster::launch {

/// The TCP connections of one process with others by one port.
struct PeerLinks {
  int open = 0;    ///< nobody has closed them
  int closed = 0;  ///< by the other side: as a rule because its process has ended
  friend bool operator==(const PeerLinks&, const PeerLinks&) = default;
};

/// Those of `pid` whose port, on this side or on the other, is `port`; not those with itself. One that
/// was reset is neither open nor closed. None where /proc does not say: another user's process, one
/// that is gone. Throws nothing.
PeerLinks peer_links(pid_t pid, int64_t port);

}  // namespace muster::launch
