// Gradients of a stage, averaged over the replicas of a pipeline.
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "muster/distributed/process_group.h"
#include "muster/parallel/module/gradient_mean.h"
#include "muster/parallel/pipeline/micro_batches.h"

namespace muster::parallel {

// Note [Averages of stages]
// A stage's gradients travel as soon as they are whole, while its rank computes on, as Note [Mean of
// gradients] says. Those of one rank's stages leave in one order, the later stage first, whatever
// the number of micro-batches, which may differ between replicas. A replica that fails still takes
// part, with nothing, so that nobody waits for it.

/// One thread; one for each step.
class StageAverages {
 public:
  /// `stages`: of this rank, by number, with the parameters that need gradients. They are the same
  /// in all replicas.
  StageAverages(distributed::ProcessGroup replicas,
                std::vector<std::pair<int64_t, Tensors>> stages);

  /// The stage's gradients are whole. Throws a usage error for sparse ones.
  void post(int64_t stage);
  /// All are posted: the parameters have the averages when it returns.
  void wait();
  /// Whether what post() or wait() threw is another's failure.
  bool was_let_down() const { return waits_; }
  /// Takes part with nothing in what was not posted, and leaves the gradients as they are.
  void give_up();

 private:
  void post_next(bool with_gradients);

  distributed::ProcessGroup replicas_;
  std::vector<std::pair<int64_t, Tensors>> stages_;  // the later stage first
  size_t next_ = 0;                                  // of stages_
  std::set<int64_t> whole_;
  bool waits_ = false;  // for other ranks
  std::vector<GradientMean> means_;
};

}  // namespace muster::parallel
