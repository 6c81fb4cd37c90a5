// DataParallel without the module's type: replicas as thread ranks, and who takes which rows.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "muster/distributed/process_group.h"
#include "muster/parallel/ddp/gradient_sync.h"
#include "muster/parallel/module/loss_reduction.h"
#include "muster/parallel/replicas/batch_shares.h"
#include "muster/parallel/replicas/replica_timer.h"
#include "muster/tensor/device/pinned_ring.h"

namespace muster::parallel {

class DeviceThreads;

/// How a batch is dealt out to the replicas.
enum class SharePolicy {
  kEqual,       ///< the same number of rows each, the first ones one more; same bits on every run
  kSpeed,       ///< in proportion to the measured speed; see Note [Shares by speed]
  kFreeMemory,  ///< in proportion to the bytes that are free for activations on each device
  kFixed,       ///< in proportion to `weights`; same bits on every run
};

struct DataParallelOptions {
  SharePolicy shares = SharePolicy::kEqual;
  std::vector<double> weights;  ///< of kFixed: one per device, not negative; any scale
  LossReduction reduction = LossReduction::kMean;
  int64_t speed_window = 15;      ///< of kSpeed: steps whose median counts
  double max_share_change = 0.1;  ///< of kSpeed: per step, as a share of a replica's own fraction
  int threads_per_replica = 0;  ///< inside operations; 0: the caller's number, divided by replicas
  /// Of a replica for the others.
  std::chrono::milliseconds timeout = distributed::kDefaultTimeout;
  /// Of the gradients' averaging. They are views of the buckets: nobody calls LibTorch's
  /// zero_grad(), which throws on those, so the copies and their memory are saved.
  DdpOptions ddp = {.gradient_as_bucket_view = true};
  /// For tests: seconds of a replica's clock (kSpeed), free bytes of its device (kFreeMemory).
  std::function<double(int replica)> clock;
  std::function<uint64_t(int replica)> free_bytes;
};

/// A thread, a rank of a ThreadWorld and a GradientSync per device. Used by one thread at a time.
class ReplicaGroup {
 public:
  /// Throws a usage error for no device, one that is not there, one other than the CPU that is
  /// named twice (see Note [One replica per device]), or options that do not fit.
  ReplicaGroup(std::vector<at::Device> devices, DataParallelOptions options);
  /// Gradients that are views of the buckets are dropped.
  ~ReplicaGroup();
  ReplicaGroup(const ReplicaGroup&) = delete;

  /// The replicas' tensors, by replica; once, before anything else. All become replica 0's values.
  /// Throws a usage error that names the first tensor in which the replicas differ.
  /// `sparse_gradients` are names of parameters, besides those of the options.
  void attach(std::vector<NamedTensors> parameters,
              std::vector<NamedTensors> buffers,
              std::vector<std::string> sparse_gradients);

  int size() const { return static_cast<int>(devices_.size()); }
  const std::vector<at::Device>& devices() const { return devices_; }
  /// The way of batches to the replica's device, for its thread; null where copies are direct.
  tensor::PinnedRing* ring(int replica) { return rings_[static_cast<size_t>(replica)].get(); }
  /// Rows that each replica took of the last batch.
  const std::vector<int64_t>& rows() const { return rows_; }

  using LossOf = std::function<at::Tensor(int replica, int64_t from, int64_t rows)>;
  /// Forward and backward of one batch; see DataParallel::backward. `loss_of` runs on the replicas'
  /// threads.
  at::Tensor backward(int64_t rows, const LossOf& loss_of);

  using Run = std::function<void(int replica, int64_t from, int64_t rows)>;
  /// Without gradients; replicas without rows are left out.
  void infer(int64_t rows, const Run& run);

  /// run(i) on thread i. If one throws, replicas may differ from each other, and everything after
  /// it is refused.
  void each(const std::function<void(int replica)>& run);

  void broadcast_module();
  void zero_grad();
  void set_sync(bool on);
  bool sync() const;

 private:
  std::vector<int64_t> deal(int64_t rows);
  std::vector<double> weights_now();
  void note_speed();
  void connect(DdpOptions options);
  void train(int replica, int64_t from, int64_t rows, int64_t of_batch, const LossOf& loss_of);
  double loss_weight(int64_t rows, int64_t of_batch) const;
  at::Tensor combined_loss(int64_t of_batch) const;
  void run(const std::function<void(int replica)>& task);
  void run_or_reconnect(const std::function<void(int replica)>& task, bool drops_gradients = false);
  void require_alive() const;

  const std::vector<at::Device> devices_;
  const DataParallelOptions options_;
  std::vector<NamedTensors> parameters_, buffers_;  // by replica
  std::vector<std::string> sparse_gradients_;
  std::unique_ptr<DeviceThreads> threads_;
  std::unique_ptr<distributed::ThreadWorld> world_;
  std::vector<std::unique_ptr<GradientSync>> syncs_;
  std::vector<ReplicaTimer> timers_;
  std::vector<std::unique_ptr<tensor::PinnedRing>> rings_;
  std::optional<SpeedShares> speed_;
  std::vector<double> memory_;  // free bytes when they were last looked at
  int64_t batches_ = 0;
  bool timed_ = false;  // the timers hold a whole step that speed_ does not know yet
  std::vector<int64_t> rows_;
  std::vector<at::Tensor> losses_;  // of the replicas' shards, without graph
  std::string dead_;                // why nothing can be done any more
};

}  // namespace muster::parallel
