// Ranks as threads, for tests of everything that talks between ranks.
#pragma once

#include <barrier>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "muster/distributed/process_group.h"

namespace muster::testing {

struct RankOptions {
  /// Of every collective: a test that hangs fails with the missing rank's name.
  std::chrono::milliseconds timeout{60'000};
  std::string backend = "thread";  ///< or shm, gloo, shm+gloo: between threads
  std::vector<std::string> hosts;  ///< of the ranks, as ThreadWorld pretends them; empty: one host
  distributed::MonitorOptions monitor;  ///< a fault plan, for one
};

/// Runs `rank_main` on one thread per rank and joins them all. Intra-op threads are 1 in each. A
/// rank that throws releases the others: who waits for it gets an error. The first error in time is
/// rethrown, "rank R: …" in front where it is ours.
void run_ranks(int world_size,
               const std::function<void(distributed::ProcessGroup group)>& rank_main,
               RankOptions options = {});

/// At the end of a rank's function: it stays until all ranks are there, as one that has failed in a
/// job of processes stays until its launcher ends it.
struct LeaveTogether {
  std::barrier<>& all;
  ~LeaveTogether() { all.arrive_and_wait(); }
};

/// As run_ranks, for tests of errors: what() of the exception that each rank ended with, by rank;
/// empty for one that ended well. A rank that ends leaves, as in run_ranks: who waits for it gets
/// an error. Where that must not be the error looked for, ranks leave together (LeaveTogether).
std::vector<std::string> rank_errors(
    int world_size,
    const std::function<void(distributed::ProcessGroup group)>& rank_main,
    RankOptions options = {});

}  // namespace muster::testing
