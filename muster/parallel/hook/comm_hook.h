// How the gradients of a bucket travel. One file of hooks/ adds one; a user may pass their own.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include "muster/base/entry.h"
#include "muster/base/params.h"
#include "muster/distributed/process_group.h"
#include "muster/parallel/module/tensors.h"

namespace muster::parallel {

// Note [Communication hooks]
// A hook takes the place of DDP's own "divide, then sum over the ranks". It is called once per
// bucket and step, buckets in the same order on every rank, by the thread that runs backward, while
// backward goes on: it starts the transfer and returns. After backward `epilogue` is called for
// each bucket, again in order and by that thread, and makes the averaged gradient of what arrived. Both
// orders are the same on all ranks, so both may start collectives. A hook divides itself: DDP does
// not any more. Under no_sync it is not called.

/// What a hook started for one bucket.
class BucketReduction {
 public:
  /// From the tensor that arrived to the bucket's averaged gradient, as long as the bucket.
  using Epilogue = std::function<at::Tensor(const at::Tensor& arrived)>;

  /// Without `epilogue`, what arrives is the averaged gradient itself.
  BucketReduction(const c10::intrusive_ptr<c10d::Work>& work, Epilogue epilogue = nullptr);
  /// The value is a tensor, or a list of one.
  BucketReduction(c10::intrusive_ptr<c10::ivalue::Future> future, Epilogue epilogue = nullptr);

  const c10::intrusive_ptr<c10::ivalue::Future>& future() const { return future_; }
  const Epilogue& epilogue() const { return epilogue_; }

 private:
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  Epilogue epilogue_;
};

/// One hook of one DistributedDataParallel on one rank.
class CommHook {
 public:
  virtual ~CommHook() = default;

  /// Told once, before the first bucket: DDP's parameters with their names, the same on all ranks.
  virtual void bind(const NamedTensors& /*parameters*/) {}

  /// `bucket.getBuffer()` is this rank's gradients of the bucket // [length], undivided; it may be
  /// overwritten. A sparse bucket holds one sparse gradient.
  virtual BucketReduction reduce(c10d::GradBucket& bucket) = 0;

  // Where each rank keeps a piece of the average alone (ZeRO's stages 2 and 3), the bucket is
  // reduced and scattered by whoever sums it, and a hook says what travels.

  /// Whether it can: what it sends of a bucket is summed element by element.
  virtual bool scatters() const { return false; }
  /// `gradients` // [ranks x piece], this rank's, undivided; may be overwritten. Returns what the ranks
  /// sum in their place // as long, of any dtype, divided by the number of ranks. Throws an internal
  /// error unless scatters(), as its counterpart.
  virtual at::Tensor before_scatter(const at::Tensor& gradients);
  /// `sum` // [piece], this rank's. Returns the average in `dtype`.
  virtual at::Tensor after_scatter(const at::Tensor& sum, at::ScalarType dtype);

  /// What the next step depends on, for this rank: error feedback differs from rank to rank, so
  /// every rank saves its own. With it, a resumed run goes on bit for bit; powersgd's exception is
  /// in Note [PowerSGD].
  virtual NamedTensors state() const { return {}; }
  /// Replaces the state. Throws a usage error for a tensor that is missing, unknown or of another
  /// shape.
  virtual void load_state(const NamedTensors& state);
};

/// A hook without state of its own, as a user writes it: starts the transfer of a bucket and
/// returns its Work or Future. For example, the default with a word to the log:
///
///     [group](c10d::GradBucket& bucket) {
///       bucket.getBufferRef().div_(group.world_size());
///       std::vector<at::Tensor> sum{bucket.getBuffer()};
///       return muster::parallel::BucketReduction(group.c10d()->allreduce(sum));
///     }
using CommHookFunction = std::function<BucketReduction(c10d::GradBucket& bucket)>;
std::shared_ptr<CommHook> make_comm_hook(CommHookFunction function);

struct CommHookEntry {
  static constexpr std::string_view kKind = "communication hook";
  std::string_view name;
  std::string_view help;
  std::span<const Param> params;
  /// Null: DDP's own sum.
  std::shared_ptr<CommHook> (*make)(const distributed::ProcessGroup& group,
                                    const ParamValues& params);
  bool keeps_errors = false;  ///< what a step lost is added to a later one
  bool is_plain = false;      ///< no hook: `make` gives null
};

/// All communication hooks (generated; see Note [Generated tables]).
EntryTable<CommHookEntry> comm_hooks();

/// Whether the hook that `spec` names is one: false for "none". Throws a usage error for an unknown
/// name.
bool has_comm_hook(const std::string& spec);

/// Makes the hook that `spec` names: "fp16" or "powersgd:rank=2,start=100"; null for "none". Throws
/// a usage error for an unknown name or parameter.
std::shared_ptr<CommHook> make_comm_hook(const std::string& spec,
                                         const distributed::ProcessGroup& group);

}  // namespace muster::parallel
