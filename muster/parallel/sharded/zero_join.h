// Ranks of ZeRO that have different numbers of batches. Internal to ZeroCore.
#pragma once

#include <cstdint>
#include <vector>

#include "muster/parallel/ddp/join.h"

namespace muster::parallel {

// Note [Join of shards]
// As Note [Join], and a rank whose body has returned has work left: its shard is updated by nobody
// else. So every forward, clipping and step within join() begins with a small sum over the ranks, in
// which those that have ended hear what the others are about to do. Of a forward with gradients they
// take part in buffers, counts of samples and the reduce-scatters of backward with zeros, and get
// their shard of the average; a clipping and a step they make as everybody. Gradients are dropped
// where the others have dropped theirs, which they say at their next forward: how many backwards each
// rank's sums are of goes with each notice, and a step of unlike sums is refused on all ranks.
//
// In stage 1 a forward's notice is followed by DDP's own (Note [Join]), and a rank that has ended keeps
// the averages that it takes part in (GradientSync::shadow_step()). Stage 3 has no join: units are
// gathered where forward comes to them, and again where backward does or a checkpoint is recomputed,
// so which one is next, and how often, is known to ranks with a batch alone and may hang on the batch.
// A rank without one runs any input and weighs its loss with 0: then it knows, too.

/// What a rank is about to do; kEnded: its body has returned.
enum class ZeroJoinCall : int64_t { kEnded, kForward, kTraining, kClip, kStep };

/// What all ranks said.
struct ZeroJoinMeeting {
  std::vector<int> present, absent;  ///< ranks with and without a batch
  ZeroJoinCall call = ZeroJoinCall::kEnded;
  double max_norm = 0;     ///< of a clipping
  int64_t backwards = 0;   ///< in the sums of those that are present
  bool is_uneven = false;  ///< some rank's sums are of another number of backwards
  bool ends = false;       ///< somebody wants to end it all
};

/// What is known of the step under way.
struct ZeroJoinRun {
  JoinOptions options;
  int present = 0;         ///< ranks with a batch in this step
  int authority = 0;       ///< the highest of them, whose buffers count
  bool has_ended = false;  ///< this rank's body has returned
};

}  // namespace muster::parallel
