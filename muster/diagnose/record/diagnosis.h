// Who is to blame for a collective that failed or does not end: a pure function of what the ranks
// told each other.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/diagnose/record/peer_state.h"

namespace muster::diagnose {

/// A rank as this one sees it.
struct PeerView {
  /// The heartbeat that was read last; nothing: none was ever seen.
  std::optional<PeerState> state;
  double age_s = 0;            ///< since a heartbeat with a new number came
  Life life = Life::kUnknown;  ///< asked of the kernel, where it runs on this host
  /// For how long it was looked for a new heartbeat, and none came; time without a look is none.
  double silent_s = 0;
  /// Read since the suspicion arose; of a process that has ended: since it ended, so that this is
  /// its last word. What is not fresh proves nothing against a rank.
  bool is_fresh = false;
};

/// The group's store as this rank sees it.
struct StoreView {
  bool lost = false;     ///< its connection broke
  double silent_s = 0;   ///< a request waits that long for its answer
  int server_rank = -1;  ///< who serves it; -1: nobody of the group
  /// A rank that is not in the group does, and may end in order before it.
  bool server_outside = false;
};

/// The operation that failed or does not end.
struct Stuck {
  OpRecord op;
  double waited_s = 0;
  int rank = 0;  ///< ours
};

struct Diagnosis {
  enum class Kind {
    kMismatch,  ///< ranks called different operations
    kGone,      ///< a process has ended
    kStopped,   ///< SIGSTOP, a debugger
    kEnded,     ///< a rank has closed the group
    kSilent,    ///< no heartbeat, and its host is not ours
    kMissing,   ///< alive, but has not called the operation
    kAllThere,  ///< every rank called it
    kUnknown,   ///< nothing is known of the others
  };
  Kind kind = Kind::kUnknown;
  /// More waiting would not tell more.
  bool certain = false;
  /// A call of the mismatch does not stand yet: where its backend refuses it, there is none.
  bool may_pass = false;
  /// The calls of the mismatch are not known, only that they differ: no heartbeat shows them yet.
  bool is_unseen = false;
  std::vector<int> culprits;  ///< by rank; empty where nobody is alone to blame
  std::string who;            ///< "rank 2 is gone: …"
  std::string common;         ///< "the last operation that all ranks called is #40 barrier"
  std::string hint;
};

/// `peers` by rank, this rank among them. `stale_s`: a rank silent for longer has stopped. Looks
/// for, in this order: ranks that called something else, processes that are gone, stopped or ended,
/// hosts that are silent, ranks that did not come; of the last those that say what they work at, if
/// there are any.
Diagnosis diagnose(const Stuck& stuck,
                   std::span<const PeerView> peers,
                   const StoreView& store,
                   double stale_s);

/// Where the ranks' collectives differ, if what is known shows it: by sequence number in the
/// windows, else by the chains' marks. See Note [Chain of operations].
bool disagree(const PeerState& a, const PeerState& b);

}  // namespace muster::diagnose
