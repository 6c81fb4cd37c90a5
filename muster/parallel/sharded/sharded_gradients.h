// ZeRO-2: gradients are summed bucket by bucket while backward runs, and each rank keeps its shard.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "muster/parallel/hook/comm_hook.h"
#include "muster/parallel/module/accumulator_hooks.h"
#include "muster/parallel/sharded/gradient_marks.h"
#include "muster/parallel/sharded/sharded_parameters.h"

namespace muster::parallel {

struct ShardedGradientOptions {
  /// Allow that a backward does not reach every parameter. Those that no rank reached have no
  /// gradient; costs a small all-reduce after each backward.
  bool find_unused_parameters = false;
  /// Runs when a backward begins: drop() is still in time there.
  std::function<void()> before_backward;
  /// What travels of a bucket; null: the gradients divided by the number of ranks.
  std::shared_ptr<CommHook> hook;
};

// Note [Sharded gradients]
// A hook behind each parameter's gradient accumulator copies the gradient, divided by the world
// size as DDP does, to its place in its bucket and drops it. A bucket that is full is
// reduce-scattered at once; its memory is freed when its sum has arrived. All ranks launch buckets
// in one order, from the second backward on that in which rank 0's first one filled them. At most
// kBucketsInFlight are on their way, so that a slow network costs time instead of memory: a rank
// never holds more gradients than its shard, those buckets and the ones that backward is filling. A
// second backward before zero_grad() adds to the shards: accumulation costs communication but no
// memory.
//
// Where weights are in shards, all-gathers lie between these transfers, in an order that all ranks
// share. A unit's bucket is full behind its backward at the latest: what was not reached is
// completed there. The rest's, of which some rank may not reach a part, waits for the end then.

/// Averages and shards the gradients of one rank's parameters. Used by the rank's own thread; on
/// devices the hooks run on autograd's thread for the device while that one waits in backward().
class ShardedGradients {
 public:
  ShardedGradients(const ShardedParameters& parameters, ShardedGradientOptions options = {});
  ShardedGradients(const ShardedGradients&) = delete;
  ShardedGradients& operator=(const ShardedGradients&) = delete;

  /// The average over ranks // [piece], a view, in the parameter's dtype; undefined before a
  /// backward and for a parameter that no rank reached.
  at::Tensor of(size_t bucket, const ShardPiece& piece) const;

  /// What this rank holds of a bucket: what backward fills, what is on its way, and the sum.
  std::vector<at::Tensor> held(size_t bucket) const;

  /// Has someone called the module's zero_grad() since the last backward? Its smallest parameter
  /// has a mark; see Note [Gradient marks].
  bool module_dropped() const { return backward_.expired() && mark_.gone() > 0; }

  /// A backward is under way, though no gradient may come on this rank.
  void begin();
  /// In a backward: no more gradients come for this bucket. Where unused parameters are looked for
  /// and weights are in shards, this has to be said at the same place on all ranks, since transfers
  /// of weights lie between those of gradients.
  void complete(size_t bucket);

  /// By how much each gradient is divided from now on; a hook divides by itself.
  void set_divisor(int ranks) { divisor_ = ranks; }
  /// Takes part in a backward of the other ranks with zeros. See Note [Join of shards].
  void shadow_backward();
  /// Backwards in the sums, since drop() or zero_grad().
  int64_t backwards() const { return backwards_; }

  /// Before the first backward.
  void set_hook(std::shared_ptr<CommHook> hook) { options_.hook = std::move(hook); }
  const std::shared_ptr<CommHook>& hook() const { return options_.hook; }
  bool has_run() const { return order_learnt_; }

  /// Drops this rank's shard alone.
  void drop();
  /// Drops this rank's shard, and what a backward that threw left behind.
  void zero_grad();

 private:
  struct Filling {
    at::Tensor buffer;  // [world_size * chunk], from the first gradient to the sum
    size_t missing = 0;
  };
  struct Flight {
    size_t bucket;
    at::Tensor buffer, sum;             // [world_size * chunk], [chunk]
    at::ScalarType dtype = at::kFloat;  // of the average
    c10::intrusive_ptr<c10d::Work> work;
  };

  void arrived(size_t parameter);
  void mark_smallest();
  void begin_backward();
  void end_backward();
  void fill(size_t parameter, const at::Tensor& gradient);
  void launch_full();
  void launch(size_t bucket);
  void land();  // the oldest flight
  void reset();
  void complete_unused();
  void learn_order();
  bool is_late(size_t bucket) const;
  void put_late_last();
  [[noreturn]] void refuse_missing();

  const ShardedParameters& parameters_;
  ShardedGradientOptions options_;
  std::vector<size_t> bucket_of_, place_of_;  // by parameter
  std::vector<bool> arrived_;                 // by parameter, in this backward
  std::vector<bool> reached_;                 // by parameter and any rank, since zero_grad()
  std::vector<Filling> filling_;              // by bucket
  std::vector<Flight> flights_;               // oldest first
  std::vector<at::Tensor> shards_;            // [chunk] by bucket; undefined without gradient
  std::vector<size_t> order_;                 // of launching, the same on all ranks
  std::vector<size_t> filled_;  // buckets in the order in which this backward filled them
  size_t next_ = 0;             // index into order_
  bool order_learnt_ = false;
  int divisor_ = 1;
  int64_t backwards_ = 0;
  bool is_ending_ = false;  // the backward: every bucket is launched
  /// Of the backward under way: gone with it, whether it ends or throws.
  std::weak_ptr<void> backward_;
  GradientMarks mark_;
  AccumulatorHooks hooks_;
};

}  // namespace muster::parallel
