// Where the store of a job is, and whether somebody is there.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "muster/base/file.h"
#include "muster/base/rank_env.h"

namespace muster::distributed {

/// A socket for the server that only this machine reaches; none where others may mean it, or where
/// it cannot be bound: LibTorch then says why. See Note [Where the store listens].
UniqueFd loopback_socket(const RankEnv& env);

// Note [Who answers]
// TCPStore's client asks the server a question in its constructor and waits for the answer without any
// limit. Whatever accepts connections and waits for its client to speak first (an HTTP server, a tunnel
// whose far end hangs, a rank 0 that is stopped) would hold a rank there for ever. So we ask first, with
// a limit, by a connection that is made in any case, to find out whether somebody listens: what the
// client says first, the command VALIDATE with a magic number and PING with a number, which a store
// sends back. That is one round trip more, 0.1 ms on one machine. Both of LibTorch's servers know it,
// 2.11 to 2.15, and a test compares our bytes with those of the client that we are linked with.
//
// The client on a thread of its own would need none of c10d's protocol. But a thread in a constructor
// that never returns can only be left behind, with its socket, and would be found by the end of the
// process; and c10d does not hand the socket out before, by which it could be woken.
//
// Who closes a connection at once is taken for nobody, and asked again: a server that goes while it is
// asked, since its job has ended, or a tunnel to a rank 0 that does not listen yet. Who is silent for
// so long, or says something else, will not become a store.

/// Longer than a busy machine, or one that is being moved, keeps a store from answering.
inline constexpr std::chrono::milliseconds kSilence = std::chrono::seconds(10);

struct StoreSearch {
  std::chrono::steady_clock::time_point until;     ///< somebody is there by then
  std::chrono::steady_clock::time_point deadline;  ///< and answers by then; or sooner: `silence`
  std::function<bool()> is_over = [] { return false; };  ///< nobody will come any more
  std::chrono::milliseconds silence = kSilence;
};

enum class FoundStore {
  kYes,
  kNobody,
  kClosed  ///< somebody accepts connections, and closes them
};

/// Waits for a store at host:port. Throws an environment error if what is there is none. TCPStore's
/// own client sleeps a whole second after a refused connection, which would be most of a rank's
/// start-up whenever rank 0 is a few milliseconds later than the rest.
FoundStore wait_for_store(const std::string& host, int64_t port, const StoreSearch& search);

/// Before this process serves a store at host:port, whose own client then goes there: environment
/// error if it would meet something that is no store, on another machine, say, if `host` is not this
/// one. False if this is the machine, and somebody has the port. A store there is none of its business.
bool may_serve_at(const std::string& host, int64_t port, const StoreSearch& search);

/// The address of this machine from which `remote` is reached: "127.0.0.1" for a local one. No
/// packet is sent. Throws an environment error if `remote` cannot be resolved or reached by any
/// interface.
std::string address_towards(const std::string& remote);

}  // namespace muster::distributed
