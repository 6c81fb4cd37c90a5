// Ranks that are stopped, and cannot see that their job has ended elsewhere. Private to the room.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "muster/launch/process/peer_links.h"

namespace muster::launch {

// Note [Stopped ranks]
// A rank that is stopped (SIGSTOP, SIGTSTP) may be told to go on at any time, so nobody ends it for
// that. But its job may end meanwhile: ranks on other machines see their timeout and fail, and their
// launchers end with them. The launcher of a machine hears of none of this, and waits for a rank that
// nobody will let go on. Launchers have no connection with each other, but ranks have: each is
// connected with rank 0's store at MASTER_PORT, and a process that ends closes its connections, which
// the kernel of a stopped one's machine knows (peer_links). So a rank's job has ended if the rank is
// stopped, had such connections, and for some looks in a row all of them are closed by the other
// side: for rank 0 by all other ranks, for the others by rank 0. Then this machine's ranks get SIGTERM,
// SIGCONT and the grace time, as after any failure, and SIGKILL after that.
//
// Nothing is known of a job without such connections; where the other machine was lost without a word,
// since connections then stay open; of a debugger's stops, which are no business of a launcher; and of
// processes that a rank has started.

class StoppedRanks {
 public:
  using Links = std::function<PeerLinks(pid_t)>;
  static constexpr double kLookS = 1;  ///< from one look to the next
  static constexpr int kLooks = 5;

  explicit StoppedRanks(Links links) : links_(std::move(links)) {}

  void add(int64_t rank, pid_t pid);
  void remove(int64_t rank) { ranks_.erase(rank); }  ///< it goes on, or has ended
  bool empty() const { return ranks_.empty(); }

  /// Those that the rest of their job has left, as far as is known now.
  std::vector<int64_t> look();

 private:
  struct Stopped {
    pid_t pid = -1;
    bool was_linked = false;
    int looks_alone = 0;
  };
  const Links links_;
  std::map<int64_t, Stopped> ranks_;
};

/// That these ranks, told to end now, are given `grace_s`. Pure.
std::string left_text(std::span<const int64_t> ranks, double grace_s);

/// That these ranks have not used it. Pure.
std::string late_text(std::span<const int64_t> ranks, double grace_s);

}  // namespace muster::launch
