// What DistributedDataParallel does around a module's forward, without the module's type.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "muster/distributed/process_group.h"
#include "muster/parallel/ddp/bucket_memory.h"
#include "muster/parallel/ddp/join.h"
#include "muster/parallel/hook/comm_hook.h"
#include "muster/parallel/module/tensors.h"

namespace muster::parallel {

struct BackwardGuard;
class AccumulatorHooks;
class BucketTuner;
class DesyncCheck;
class DirectGradients;
class HookRun;
class OpenReducer;
class ParameterIdentity;

/// DdpOptions::bucket_bytes_cap: tried out during the first steps.
inline constexpr int64_t kAutoBucketBytes = 0;

/// Names and defaults are those of torch.nn.parallel.DistributedDataParallel, as far as it has
/// them.
struct DdpOptions {
  /// Gradients travel in buckets of at most this many bytes. kAutoBucketBytes tries a few caps
  /// during the first steps and keeps the fastest; see Note [Bucket size].
  int64_t bucket_bytes_cap = 25 << 20;
  /// The first bucket is smaller, so that its reduction starts early.
  int64_t first_bucket_bytes_cap = 1 << 20;
  /// Walk the graph each step for parameters that this step does not use.
  bool find_unused_parameters = false;
  /// Rank 0's buffers (BatchNorm's statistics) go to all ranks before each forward.
  bool broadcast_buffers = true;
  /// Gradients that travel in buckets are views into them: saves one copy and the memory.
  /// LibTorch's Optimizer::zero_grad() throws on such gradients; use
  /// DistributedDataParallel::zero_grad().
  bool gradient_as_bucket_view = false;
  /// Verify, then broadcast rank 0's parameters and buffers at construction.
  bool init_sync = true;
  /// By name, parameters and buffers: neither broadcast nor averaged.
  std::vector<std::string> parameters_to_ignore;
  /// Every step uses the same parameters the same number of times: allows a parameter to be used by
  /// several forwards of a step or by a backward within backward (checkpointing), and finds unused
  /// parameters once instead of in every step.
  bool static_graph = false;
  /// Gradients of parameters of at least this many bytes are averaged where they lie, instead of in
  /// buckets, if the backend does that well (thread, shm) and nothing else is asked of the buckets:
  /// a communication hook, unused parameters, a static graph, sparse gradients, a cap to find,
  /// join. 0: all that can be, a large number: none. See Note [Direct gradients].
  int64_t direct_bytes = 256 << 10;
  /// How gradients travel: "fp16", "powersgd:rank=2", … of `muster list comm-hooks`.
  std::string comm_hook = "none";
  /// Ranks compare hashes of a few parameters every so many steps; 0: never. See DesyncCheck.
  int64_t desync_check_steps = 100;
  /// By name: parameters whose gradients are sparse. DistributedDataParallel adds those of its
  /// module's Embedding and EmbeddingBag layers with sparse(true).
  std::vector<std::string> sparse_gradients;
};

/// Averages the gradients of one rank's parameters over the group while backward runs.
/// Source: Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel
/// Training"; order of calls as in PyTorch's DistributedDataParallel, engine: c10d::Reducer. Used
/// by the rank's own thread.
class GradientSync {
 public:
  /// Collective. Throws a usage error, the same on every rank, that names the first parameter or
  /// buffer in which the ranks' modules differ (name, shape, order in memory, dtype,
  /// requires_grad), before anything is changed.
  GradientSync(NamedTensors parameters,
               NamedTensors buffers,
               distributed::ProcessGroup group,
               DdpOptions options);
  ~GradientSync();

  /// Throws a usage error that names the parameters if the previous backward left some without
  /// gradient, or if one was moved, replaced or unfrozen since the module was wrapped.
  void before_forward();
  /// `outputs` are replaced in place where the graph needs a mark of our own
  /// (find_unused_parameters).
  void after_forward(const std::vector<at::Tensor*>& outputs);

  /// For before_forward's check: does the module still hold the parameters that it was wrapped
  /// with?
  const ParameterIdentity& identity() const { return *identity_; }

  /// Off: gradients add up locally. Must cover forward and backward; see NoSync.
  void set_sync(bool on);
  bool sync() const;

  /// Drops all gradients, views into buckets too.
  void zero_grad();

  // These are documented at DistributedDataParallel.
  void register_comm_hook(std::shared_ptr<CommHook> hook);
  at::Tensor weigh(const at::Tensor& mean_loss, int64_t samples) const;
  at::Tensor weigh(const at::Tensor& mean_loss, int64_t samples, int64_t samples_of_all) const;
  void join(const JoinOptions& options, const std::function<void()>& body);
  void average_gradients();

  /// A join that somebody else runs (ZeRO's stage 1): from begin_join() on forwards are announced, and
  /// while the others have batches a rank that has ended calls shadow_step() for each of theirs. It
  /// takes part in their forward and, if gradients are averaged, in backward: then true, and the
  /// averages are in this rank's grad(), too, as they would be if its share had been zeros. Collective.
  /// The first throws a usage error within join.
  void begin_join(const JoinOptions& options);
  bool shadow_step();
  void end_join();

  NamedTensors state() const;
  void load_state(const NamedTensors& state);

  int64_t bucket_bytes_cap() const { return bucket_bytes_cap_; }
  /// For a report of memory that ran out.
  BucketMemory bucket_memory() const;
  const distributed::ProcessGroup& group() const { return group_; }

 private:
  void sort_parameters(NamedTensors parameters, NamedTensors buffers);
  void broadcast(const std::vector<at::Tensor>& tensors, int root = 0) const;
  void broadcast_state(int root) const;
  void build_reducer(const std::vector<size_t>& order);
  void drop_reducer();
  void require_reducer() const;
  void tune_buckets();
  void prepare_reducer(bool training);
  void mark_outputs(const std::vector<at::Tensor*>& outputs, std::vector<at::Tensor>& roots);
  void use_buckets_alone();
  const NamedTensors& bucketed() const;
  [[noreturn]] void explain(const std::exception& error) const;
  [[noreturn]] void refuse_missing(const std::vector<std::string>& names) const;

  // Each gradient, before the Reducer gets it (gradient_sync_arrivals.cpp).
  void expect_arrivals();
  void arrived(size_t parameter);

  void average_by_hook();  // gradient_sync_average.cpp

  // Uneven inputs (gradient_sync_join.cpp).
  void announce_forward(bool training);
  bool shadow_forward();
  void shadow_backward(bool keeps_averages);
  void give_kept_share(const c10d::GradBucket& bucket) const;
  void keep_average(c10d::GradBucket& bucket, const c10::IValue& arrived, const at::Tensor& used);
  void keep_last_model(bool was_last);

  NamedTensors parameters_;  // trained ones, each storage once, in the module's order
  NamedTensors frozen_;      // parameters that do not require gradients
  NamedTensors buffers_;
  distributed::ProcessGroup group_;
  DdpOptions options_;
  std::unique_ptr<ParameterIdentity> identity_;
  std::unique_ptr<DesyncCheck> desync_;
  std::shared_ptr<HookRun> hook_;               // null: none
  std::unique_ptr<AccumulatorHooks> arrivals_;  // made before the hooks of the two that follow
  std::unique_ptr<DirectGradients> direct_;     // null: all gradients travel in buckets
  std::unique_ptr<OpenReducer> reducer_;        // null: it could not be made anew
  std::shared_ptr<BackwardGuard> guard_;        // its logger calls the Reducer when it goes
  std::unique_ptr<BucketTuner> tuner_;          // null: the cap is settled
  int64_t bucket_bytes_cap_;
  std::optional<JoinRun> join_;  // within join()
  enum class Arrival : char { kAwaited, kLeftOut, kArrived };
  std::vector<Arrival> arrival_;  // by parameter, since the last synchronised forward
  bool paused_ = false;           // no_sync has begun where gradients were expected
  // The last forward was synchronised, so the next one starts from rank 0's buffers.
  bool buffers_due_ = true;
  bool makes_buckets_ = false;  // anew, or has thrown
};

}  // namespace muster::parallel
