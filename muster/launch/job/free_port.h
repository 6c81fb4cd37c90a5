// A port for rank 0's store.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "muster/base/file.h"

namespace muster::launch {

// Note [Lost port]
// The launcher finds a free port by binding port 0, and holds it, bound and without listening, while
// the attempt runs: the kernel then gives it to nobody else, but lets rank 0 listen there, if that
// sets SO_REUSEADDR. A program that does not, or somebody who asks for this very port before rank 0
// does, loses it. If the port was our choice, an attempt that fails for this reason at its start is
// repeated with another port, a few times, now not held, without using up a restart. A rank says so
// with exit code 98, or in words that hold the port: PyTorch's own ("EADDRINUSE") or those of
// muster/distributed/meet/store.cpp ("is in use"). Any rank's words count, since another one may fail
// first on meeting the stranger at that port.

/// A TCP port that nobody on this machine listens on, over IPv4 and IPv6.
struct FreePort {
  int64_t number = 0;
  /// Bound to it, and does not listen: as long as it is open, the kernel gives the port to nobody who
  /// asks for any, nor to an outgoing connection. Who asks for this one, with SO_REUSEADDR as servers
  /// do (LibTorch's among them), gets it.
  UniqueFd hold;
};

/// Throws an environment error if there is none.
FreePort free_port();

/// Whether one of the lines says that somebody else has `port`. Pure.
bool says_port_is_taken(std::span<const std::string> lines, int64_t port);

}  // namespace muster::launch
