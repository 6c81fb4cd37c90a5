#include "muster/parallel/replicas/replica_group.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/engine.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/parallel/replicas/replica_timer.h"
#include "muster/parallel/threads/device_threads.h"
#include "muster/tensor/device/cuda.h"
#include "muster/tensor/device/device_memory.h"

namespace muster::parallel {
namespace {

constexpr int64_t kBatchesPerMemoryLook = 100;  // asking the driver is not free

// A loss of no rows is a mean over nothing. Who got none takes these first rows, with weight 0:
// two, since BatchNorm refuses one.
constexpr int64_t kStandInRows = 2;

void check_weights(const DataParallelOptions& options, size_t devices) {
  if (options.shares != SharePolicy::kFixed && !options.weights.empty()) {
    throw usage_error({.refused = "weights of shares that are not fixed",
                       .rule = "weights belong to SharePolicy::kFixed",
                       .hint = "set .shares = SharePolicy::kFixed, or leave the weights out"});
  }
  if (options.shares != SharePolicy::kFixed) return;
  double sum = 0;
  bool fine = options.weights.size() == devices;
  for (const double weight : options.weights) {
    fine = fine && std::isfinite(weight) && weight >= 0;
    sum += weight;
  }
  if (fine && sum > 0 && std::isfinite(sum)) return;
  std::vector<std::string> given;
  for (const double weight : options.weights) given.push_back(shortest(weight));
  throw usage_error(
      {.refused = "weights of fixed shares",
       .rule = concat(
           "one number per device (", devices, "), none negative, their sum above 0 and finite"),
       .value = join(given, ", ")});
}

// Note [One replica per device]
// LibTorch has one autograd thread for each device but the CPU, whose backwards run on the thread
// that calls them. That thread also runs what is to be done at the end of a backward, such as the
// Reducer's wait for the other replicas: with two of them on one device, the first to end would
// wait on the very thread that has yet to run the second.
void check_named_once(const std::vector<at::Device>& devices) {
  for (size_t i = 0; i < devices.size(); ++i) {
    if (devices[i].is_cpu()) continue;
    if (std::find(devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(i), devices[i]) ==
        devices.begin() + static_cast<std::ptrdiff_t>(i))
      continue;
    throw usage_error(
        {.refused = concat("DataParallel with two replicas on ", devices[i]),
         .rule = "a device has one replica: LibTorch runs the backwards of a device one after the "
                 "other, and replicas wait for each other in them",
         .hint = "one larger batch on one replica computes the same"});
  }
}

}  // namespace

ReplicaGroup::ReplicaGroup(std::vector<at::Device> devices, DataParallelOptions options)
    : devices_(std::move(devices)),
      options_(std::move(options)),
      rows_(devices_.size()),
      losses_(devices_.size()) {
  if (devices_.empty()) {
    throw usage_error(
        {.refused = "DataParallel over no device",
         .rule = "one replica at least",
         .hint = "several replicas on the CPU: std::vector<at::Device>(4, at::kCPU)"});
  }
  check_named_once(devices_);
  for (const at::Device device : devices_) require_device(device);
  check_weights(options_, devices_.size());
  if (options_.shares == SharePolicy::kSpeed)
    speed_.emplace(devices_.size(),
                   SpeedSharesOptions{.window = options_.speed_window,
                                      .max_change = options_.max_share_change});
  for (int i = 0; i < size(); ++i) {
    std::function<double()> clock;
    if (options_.clock) clock = [this, i] { return options_.clock(i); };
    timers_.emplace_back(devices_[i], clock);
    rings_.push_back(devices_[i].is_cpu() ? nullptr
                                          : std::make_unique<tensor::PinnedRing>(devices_[i]));
  }
  const int threads = options_.threads_per_replica > 0
                          ? options_.threads_per_replica
                          : std::max(1, at::get_num_threads() / size());
  threads_ = std::make_unique<DeviceThreads>(devices_, threads, "replica");
}

// The modules may live on, and LibTorch's zero_grad() throws on views. Members go in the order that
// is needed: the Reducers before the world that they reduce over.
ReplicaGroup::~ReplicaGroup() {
  if (options_.ddp.gradient_as_bucket_view) zero_grad();
}

void ReplicaGroup::attach(std::vector<NamedTensors> parameters,
                          std::vector<NamedTensors> buffers,
                          std::vector<std::string> sparse_gradients) {
  sparse_gradients_ = std::move(sparse_gradients);
  parameters_ = std::move(parameters);
  buffers_ = std::move(buffers);
  connect(options_.ddp);
}

/// A new world, and a GradientSync per replica in it. The old ones, which a failure may have left
/// half open, go.
void ReplicaGroup::connect(DdpOptions options) {
  options.sparse_gradients.insert(
      options.sparse_gradients.end(), sparse_gradients_.begin(), sparse_gradients_.end());
  // Also after a failed inference: buckets outlive the caller's modes.
  const c10::InferenceMode no_inference(false);
  const c10::AutoGradMode with_gradients(true);
  syncs_.clear();
  syncs_.resize(devices_.size());
  world_ = std::make_unique<distributed::ThreadWorld>(size(), options_.timeout);
  run([&](int i) {
    syncs_[i] =
        std::make_unique<GradientSync>(parameters_[i], buffers_[i], world_->group(i), options);
  });
}

void ReplicaGroup::require_alive() const {
  threads_->refuse_own_threads();
  if (dead_.empty()) return;
  throw usage_error({.refused = "a call of DataParallel after a failure that it could not mend",
                     .rule = "replicas that may differ from each other train no further",
                     .value = dead_,
                     .hint = "build it anew, from a checkpoint"});
}

void ReplicaGroup::run(const std::function<void(int replica)>& task) {
  threads_->run(task, [&](int replica, const std::string& why) { world_->leave(replica, why); });
}

// Note [After a failure]
// A replica that throws in forward or backward leaves its world, which fails the collectives that
// the others wait in, so that all threads come back. No weight has changed: with gradients dropped
// and a new world and Reducers, which cost nothing until the next step, the object is as before the
// call. A failure between replicas' optimizers is another matter: some have stepped.
void ReplicaGroup::run_or_reconnect(const std::function<void(int replica)>& task,
                                    bool drops_gradients) {
  try {
    run(task);
  } catch (...) {
    const std::exception_ptr cause = std::current_exception();
    const bool synced = sync();
    timed_ = false;
    try {
      if (drops_gradients) zero_grad();
      DdpOptions options = options_.ddp;
      options.init_sync = false;
      connect(options);
      set_sync(synced);
    } catch (const std::exception& error) {
      dead_ = error.what();
    }
    std::rethrow_exception(cause);
  }
}

void ReplicaGroup::each(const std::function<void(int replica)>& task) {
  require_alive();
  try {
    run(task);
  } catch (const std::exception& error) {
    dead_ = error.what();
    throw;
  }
}

std::vector<double> ReplicaGroup::weights_now() {
  switch (options_.shares) {
    case SharePolicy::kFixed:
      return options_.weights;
    case SharePolicy::kSpeed:
      return speed_->fractions();
    case SharePolicy::kFreeMemory:
      if (batches_ % kBatchesPerMemoryLook == 0) {
        memory_.clear();
        for (int i = 0; i < size(); ++i) {
          // CPU replicas share its memory.
          const auto sharing = std::count(devices_.begin(), devices_.end(), devices_[i]);
          const uint64_t bytes = options_.free_bytes ? options_.free_bytes(i)
                                                     : tensor::free_bytes_of(devices_[i]) /
                                                           static_cast<uint64_t>(sharing);
          memory_.push_back(static_cast<double>(std::max<uint64_t>(1, bytes)));
        }
      }
      return memory_;
    default:
      return std::vector<double>(devices_.size(), 1.0);
  }
}

std::vector<int64_t> ReplicaGroup::deal(int64_t rows) {
  rows_ = deal_rows(rows, weights_now(), options_.shares != SharePolicy::kFixed);
  ++batches_;
  return rows_;
}

void ReplicaGroup::note_speed() {
  if (!speed_ || !timed_) return;
  std::vector<double> seconds;
  for (const ReplicaTimer& timer : timers_) seconds.push_back(timer.seconds().value_or(0));
  speed_->note(rows_, seconds);
  timed_ = false;
}

// Note [Weighted shares]
// As Note [Weighted batches] in muster/train/loop/fit_step.cpp: a replica's mean loss counts (its
// rows x replicas / rows of the batch) times, the Reducer divides by the replicas, and the sum is
// the mean over exactly the rows of the batch. A loss that is a sum over rows is undone of the
// Reducer's division. A replica without rows takes part with weight 0, so that the collectives
// match.
double ReplicaGroup::loss_weight(int64_t rows, int64_t of_batch) const {
  if (rows == 0) return 0;
  if (options_.reduction == LossReduction::kSum) return size();
  return static_cast<double>(rows * size()) / static_cast<double>(of_batch);
}

void ReplicaGroup::train(
    int replica, int64_t from, int64_t rows, int64_t of_batch, const LossOf& loss_of) {
  GradientSync& sync = *syncs_[replica];
  ReplicaTimer& timer = timers_[replica];
  sync.before_forward();  // collective: not part of the replica's own time
  timer.start();
  const at::Tensor loss = rows > 0 ? loss_of(replica, from, rows)
                                   : loss_of(replica, 0, std::min(of_batch, kStandInRows));
  if (!loss.defined() || loss.numel() != 1 || !loss.requires_grad()) {
    throw usage_error(
        {.refused = "the loss of a shard",
         .rule = "one number that gradients flow from",
         .value = loss.defined()
                      ? concat(loss.sizes(), loss.requires_grad() ? "" : ", without graph")
                      : "an undefined tensor",
         .hint = "return the mean (or, with LossReduction::kSum, the sum) over the rows"});
  }
  const double weight = loss_weight(rows, of_batch);
  at::Tensor scaled = weight == 1 ? loss : loss * weight;
  sync.after_forward({&scaled});
  // The engine calls back in the order of asking, so this comes before the Reducer's wait for the
  // other replicas: what is timed is this replica's own work.
  scaled.register_hook([&timer](const at::Tensor&) {
    torch::autograd::Engine::get_default_engine().queue_callback([&timer] { timer.stop(); });
  });
  scaled.backward();
  losses_[replica] = loss.detach();
}

at::Tensor ReplicaGroup::combined_loss(int64_t of_batch) const {
  at::Tensor sum;
  for (int i = 0; i < size(); ++i) {
    if (rows_[i] == 0) continue;
    const double share = options_.reduction == LossReduction::kSum
                             ? 1
                             : static_cast<double>(rows_[i]) / static_cast<double>(of_batch);
    const at::Tensor part = losses_[i].to(devices_[0], /*non_blocking=*/true).reshape({}) * share;
    sum = sum.defined() ? sum + part : part;
  }
  return sum;
}

at::Tensor ReplicaGroup::backward(int64_t rows, const LossOf& loss_of) {
  require_alive();
  if (!c10::GradMode::is_enabled())
    throw usage_error({.refused = "DataParallel::backward without gradients",
                       .rule = "grad mode is on",
                       .hint = "use forward() for inference"});
  if (rows < 1)
    throw usage_error(
        {.refused = "DataParallel::backward of an empty batch", .rule = "one row at least"});
  note_speed();
  deal(rows);
  std::vector<int64_t> from(rows_.size(), 0);
  for (size_t i = 1; i < from.size(); ++i) from[i] = from[i - 1] + rows_[i - 1];
  run_or_reconnect([&](int i) { train(i, from[i], rows_[i], rows, loss_of); },
                   /*drops_gradients=*/true);
  timed_ = true;
  const c10::NoGradGuard no_grad;
  return combined_loss(rows);
}

void ReplicaGroup::infer(int64_t rows, const Run& run) {
  require_alive();
  note_speed();
  deal(rows);
  std::vector<int64_t> from(rows_.size(), 0);
  for (size_t i = 1; i < from.size(); ++i) from[i] = from[i - 1] + rows_[i - 1];
  const c10::NoGradGuard no_grad;  // the replicas' threads take the caller's modes
  run_or_reconnect([&](int i) {
    syncs_[i]->before_forward();  // buffers that replica 0 has moved since
    if (rows_[i] > 0 || (rows == 0 && i == 0)) run(i, from[i], rows_[i]);
    syncs_[i]->after_forward({});
  });
}

void ReplicaGroup::broadcast_module() {
  each([&](int i) {
    const distributed::ProcessGroup& group = syncs_[i]->group();
    const c10::NoGradGuard no_grad;
    for (const NamedTensors* tensors : {&parameters_[i], &buffers_[i]}) {
      for (const auto& [name, tensor] : *tensors) {
        if (tensor.defined()) group.broadcast(tensor.detach());
      }
    }
  });
}

void ReplicaGroup::zero_grad() {
  for (NamedTensors& tensors : parameters_) {
    for (auto& [name, parameter] : tensors) parameter.mutable_grad() = at::Tensor();
  }
}

void ReplicaGroup::set_sync(bool on) {
  for (const auto& sync : syncs_) {
    if (sync) sync->set_sync(on);
  }
}

bool ReplicaGroup::sync() const {
  for (const auto& sync : syncs_) {
    if (sync) return sync->sync();
  }
  return true;  // they could not be made anew, and nothing is averaged any more
}

}  // namespace muster::parallel
