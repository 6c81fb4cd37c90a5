// Why an allocation failed, and what to do about it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "muster/memory/report/facts.h"

namespace muster::memory {

enum class OomClass : uint8_t {
  kUnknown,      ///< the error says no numbers
  kTooLarge,     ///< more than the device has: it would not fit into an empty one
  kSpurious,     ///< there was room
  kStream,       ///< there is, once a stream has done its work
  kPools,        ///< it is idle in private pools (CUDA graphs)
  kFragments,    ///< it is idle, in pieces
  kGrowth,       ///< tensors grow from iteration to iteration
  kCap,          ///< the device has room that a cap of this process keeps back
  kHostLimit,    ///< the same, of a control group or `ulimit -v`
  kOthers,       ///< other processes have it
  kOutside,      ///< this process has it outside of tensors
  kLiveTensors,  ///< tensors that are needed, or seem so
};

enum class OomAction : uint8_t {
  kReadLog,       ///< find the numbers
  kCheckShape,    ///< ask for less
  kRetry,         ///< the same again
  kSynchronize,   ///< wait for the device, then the same again
  kFreePools,     ///< give graphs and their pools up
  kJoinIdle,      ///< give idle memory back; expandable segments
  kFindLeak,      ///< memory::LeakFinder
  kRaiseCap,      ///< the program's own
  kRaiseLimit,    ///< the container's, or the shell's
  kMoveAway,      ///< another device, or the end of the other process
  kFreeOutside,   ///< workers, caches, contexts
  kSmallerBatch,  ///< or the same in micro-batches
  kShard,         ///< parameters, gradients and state over ranks
  kRelease,       ///< what the top holder keeps
};

struct OomCause {
  OomClass kind = OomClass::kUnknown;
  std::string because;  ///< the numbers that decided
  OomAction action = OomAction::kReadLog;
  std::string todo;  ///< a sentence
};

// Note [Classes of out-of-memory]
// Asked is: which one thing, if it were otherwise, would have let this request pass? The first that
// would counts, from what costs nothing to what changes the program:
//   1. a request beyond the device, or beyond the cap of an empty process: nothing can be freed;
//   2. room: a block that fits, or as much free as was asked for; then blocks that wait for a
//      stream; then idle memory, in pools of graphs or in pieces (an allocator gives whole idle
//      segments back before it fails, so what is idle then is in pieces; a fiftieth of what it holds
//      at least, since each has some crumbs);
//   3. growth: without what the last iterations have added (Note [Leak verdict]'s test on a total,
//      which knows no survivors: a suspicion, and said as one);
//   4. limits of ours, and of the machine's: the device had what was missing, and a cap kept it;
//   5. other processes that hold what was missing, and at least a quarter of the device: whoever
//      lacks 2 MiB is not driven out by a desktop's 200;
//   6. this process, outside of tensors, with what was missing and more than in tensors;
//   7. else it is the tensors: activations want a smaller batch, if they are the most, or half of
//      them would do; weights and what belongs to them want to be spread, and what is neither wants
//      to be released by whoever holds it.

/// Pure.
OomCause classify(const OomFacts& facts);

/// "live tensors", "other processes".
std::string_view class_text(OomClass kind);
/// "live-tensors", for JSON.
std::string_view class_name(OomClass kind);
std::string_view action_name(OomAction action);
std::string_view cap_text(CapKind kind);

}  // namespace muster::memory
