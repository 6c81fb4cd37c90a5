// Says what leaks, how much, who holds it, and what to do.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "muster/memory/tracker/tracker.h"

namespace muster::memory {

/// What kind of thing holds the bytes.
enum class LeakKind : uint8_t {
  kGraph,            ///< graphs of earlier iterations
  kTensors,          ///< handles: a list, a cache, a queue, a cycle of shared_ptr
  kHeap,             ///< memory that is not LibTorch's allocator's
  kWaiting,          ///< of the module's device: freed, and kept for other streams (record_stream)
  kEvaluationGraph,  ///< no growth: graphs that an evaluation builds for nothing (NoGradGuard)
  kKernels,          ///< a cache of kernels compiled at run time, one for each new shape
  kMapped,           ///< memory of the process that is neither tensors nor the C library's heap
  kPinned,           ///< pinned memory of the kind of device that the module is on
  kDevice,           ///< tensors on the module's device, which no graph holds
};

struct LeakFinding {
  LeakKind kind = LeakKind::kTensors;
  /// Of CPU blocks; for kHeap, kKernels and kMapped of other memory of the process, for kWaiting and
  /// kDevice of the device, for kPinned of pinned memory. 0 of kEvaluationGraph.
  double bytes_per_iteration = 0;
  double blocks_per_iteration = 0;  ///< how many more blocks live
  double nodes_per_iteration = 0;  ///< how many more nodes of graphs live, or are built for nothing
  std::string scope;               ///< in which most of the bytes were allocated; "" outside
  std::string op;                  ///< by which operator most of them
  std::string layer;               ///< of the module, if one made most of them
  std::string held_by;             ///< "a retained autograd graph"
  std::string because;             ///< the evidence
  std::string fix;

  /// "leak: +12.4 MB/iteration, held by …, created in scope \"…\" by …, because …; fix: …"
  std::string text() const;
};

struct LeakReport {
  uint32_t iteration = 0;  ///< behind which it was made
  bool enough = false;     ///< false: too few iterations yet to say anything
  /// Most bytes first; empty: nothing leaks.
  std::vector<LeakFinding> findings;

  bool leaks() const;  ///< a finding that grows
  /// A line per finding; "no leak in iterations 6 to 25" or "too early to tell: …".
  std::string text() const;
};

struct LeakOptions {
  int warm_up = 5;      ///< iterations that are not looked at
  int window = 20;      ///< iterations that a verdict is made of, at most 60
  double rising = 0.8;  ///< share of them that grow, and share of them that have survivors
  /// Growth of tensors below this, or below `least_share` of all live bytes, is not told. Graphs
  /// are told whatever they weigh.
  int64_t least_bytes_per_iteration = int64_t{64} << 10;
  double least_share = 0.0005;
};

// Note [Leak verdict]
// A total says that bytes grow, not that they leak. What leaks is what survives: at the end of each
// iteration live blocks are sorted by scope, operator and the iteration in which they were born. A
// group leaks if, over the last `window` iterations behind the warm-up, its bytes rise in
// `rising` of the steps and have not fallen back, its number of blocks does the same, the median
// slope is above the least that counts, and `rising` of the iterations that are 3 to 3/5 `window`
// old have left blocks in it. So a warm-up, optimizer state, a cache or a ring that is full, a
// window of the last metrics, batches of changing size and a sawtooth are silent. A buffer that
// fills for longer than the window, or a list that an epoch longer than that empties at its end,
// looks like a leak while it grows: it is said to be one unless its scope says what it may grow to
// (GrowsTo).
//
// Note [Leaks outside of tensors]
// Totals that no block explains: what the C library's heap has in use beside the CPU's tensors, pinned
// memory, bytes and blocks of the module's device. Each has to rise in nine of ten steps, not to fall
// back, and by more than nodes and blocks need of the heap. Code that grows with the heap (executable
// addresses) tells caches of kernels, which see a new shape in each iteration, from other growth. Memory
// past the heap (files mapped, allocators of libraries) is told by the process's resident memory without
// the heap's, in which pages come late: medians of the window's fifths have to rise, and so have those
// of its addresses, since memory that is taken once and written bit by bit becomes resident, too, as
// does a heap that is cut to pieces. Scopes are told by a meter, which runs once a total is seen to
// grow (Note [Scope meter]).
//
// On a device blocks that were freed stay taken until the streams that record_stream() named have come
// to where they were freed. A stream that falls behind further with each iteration piles them up, and
// no handle is left to find: their bytes at each end tell, where they grow as a heap has to. A stream
// that is a few iterations behind, and stays so, is silent.
//
// Graphs are found by their nodes (Note [Node census]), with the same test on their number. If they
// grow, blocks that operators made under gradients are theirs, and what ties them is told by
//   - a .grad of the module that carries a graph, or nodes made within backwards: create_graph;
//   - backwards that ran nodes of earlier iterations: a state is carried over without detach();
//   - operators that took a tensor with a graph of an earlier iteration: sums, running averages;
//   - the last node of each surviving graph: the tensor that somebody keeps; one that no operator
//     made is a custom autograd function's, which may hold its own output.
//
// Costs: Level::kLayers, the census, and at each end a look at every live block and node.

/// Watches a tracker's iterations. The tracker outlives it; its at_end() is taken.
class LeakFinder {
 public:
  /// Throws a usage error for options out of range.
  explicit LeakFinder(Tracker& tracker, const LeakOptions& options = {});
  ~LeakFinder();
  LeakFinder(const LeakFinder&) = delete;
  LeakFinder& operator=(const LeakFinder&) = delete;

  /// Behind the last iteration that ended, by the thread that ends them.
  LeakReport report() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::memory
