// The names of machines at the other ends of a store's connections.
#pragma once

namespace muster::distributed {

// Note [Names of peers]
// c10d asks the name service for the name behind each end of a store's connections, for its log lines,
// in the thread that connects, and in the one that serves all ranks. Where no name server answers (a
// machine without network, a closed cluster) a process waits 5 s or 10 for it before it has met anybody;
// versions before 2.9 do so for each connection. There is no option. So a program that opens stores has
// a getnameinfo() of its own, which the linker exports since LibTorch's library calls one: it answers
// LibTorch with numbers, and asks libc's for everybody else. Names of hosts that the user says are looked
// up as ever. In a shared library of a user's that holds Muster it is not seen, and all is as with c10d.

/// Whether code at `caller`, an address, is in one of LibTorch's libraries.
bool is_in_libtorch(const void* caller);

/// Does nothing; who looks for stores calls it, so that the linker takes this file.
void keep_peer_names();

}  // namespace muster::distributed
