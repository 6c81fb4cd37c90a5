// One model on several devices of one process: a replica per device, each with a thread of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "muster/parallel/ddp/ddp.h"
#include "muster/parallel/replicas/data_parallel_parts.h"
#include "muster/parallel/replicas/replica_group.h"

namespace muster::parallel {

template <class Optimizer>
class ReplicatedOptimizer;

// Note [Data parallel in one process]
// torch::nn::parallel::data_parallel and Python's nn.DataParallel clone the module in every step,
// gather all outputs on device 0, and compute loss, gradients' sum and optimizer there: device 0 is
// the fullest, so it limits the batch, and the slowest. Here
//   - replicas live as long as the object, each with a thread; no interpreter and no lock between
//     them;
//   - the loss is computed on each replica, from its own outputs: what crosses devices are rows of
//     the batch, gradients, and one number;
//   - each replica is a rank of a ThreadWorld with the Reducer that DDP has: gradients travel in
//     buckets while backward runs, and every replica ends with the same bits;
//   - each replica has its own optimizer (see optimizer()). Equal weights, gradients and state stay
//     equal, so no weight is ever sent, and no device holds more than another. The other way, the
//     user's optimizer over replica 0 and a broadcast, would cost device 0 the optimizer's state
//     alone (8 more bytes per parameter for Adam) and everyone a wait for it in each step.
// Memory of each device, in bytes per float32 parameter: 4 weights, 4 gradients (views of the
// buckets that they travel in; 8 without ddp.gradient_as_bucket_view), and the optimizer's (SGD 0,
// momentum 4, Adam 8); activations of its own rows. On the host, for each GPU, pinned memory of
// four times its largest share of a tensor of the batch (Note [Pinned ring]).

/// Trains replicas of a module on shares of each batch:
///
///     muster::parallel::DataParallel dp([] { return Net(); }, {cuda0, cuda1});
///     auto optimizer = dp.optimizer([](Net& net) {
///       return torch::optim::SGD(net->parameters(), 0.1);
///     });
///     for (…) {
///       optimizer.zero_grad();
///       torch::Tensor loss = dp.backward(x, y, [](Net& net, auto x, auto y) {
///         return torch::nn::functional::cross_entropy(net->forward(x), y);
///       });
///       optimizer.step();
///     }
///
/// The gradients are those of one device on the whole batch, also where shares differ (batch
/// statistics of BatchNorm excepted: each replica has its own; running ones are replica 0's).
/// Dropout: on CUDA each device draws from its own generator. On the CPU, replicas share LibTorch's
/// one default generator, in an order that races decide: give each module its own, seeded by its
/// index (muster::models::Dropout), where a run must repeat.
///
/// `Module` is a TORCH_MODULE holder or a shared_ptr. Used by one thread at a time. Errors of a
/// replica are muster::Errors that name it and its device, with its own exception nested; after one
/// in backward() or forward() the gradients are dropped and the object goes on, see Note [After a
/// failure].
template <class Module>
class DataParallel {
 public:
  /// `make_module` is called once per device, in order, as make_module(device, index),
  /// make_module(device) or make_module(); what it returns is moved to the device and takes replica
  /// 0's weights. LibTorch's default CPU generator is left as replica 0's module left it: a seeded
  /// program draws the same numbers as with one device. Throws a usage error for no or an unknown
  /// device, a device other than the CPU that is named twice, or replicas that differ in shape.
  template <class MakeModule>
  DataParallel(MakeModule&& make_module,
               std::vector<at::Device> devices,
               DataParallelOptions options = {})
      : group_(std::make_shared<ReplicaGroup>(std::move(devices), std::move(options))) {
    modules_ = detail::make_replicas<Module>(make_module, group_->devices());
    std::vector<NamedTensors> parameters, buffers;
    std::vector<std::string> sparse;
    if constexpr (detail::kIsTorchModule<Module>)
      sparse = sparse_gradient_names(detail::module_of(modules_[0]));
    for (Module& module : modules_) {
      parameters.push_back(detail::named_parameters_of(module));
      buffers.push_back(detail::named_buffers_of(module));
    }
    group_->attach(std::move(parameters), std::move(buffers), std::move(sparse));
  }

  /// backward(batch…, loss): deals the rows out, calls loss(replica's module, its rows of batch…)
  /// on every replica's thread, and runs backward there. Adds to the gradients of all replicas the
  /// gradient of the mean loss over all rows. Returns that mean // [], on the first device, without
  /// graph.
  ///
  /// batch: tensors with the rows in dimension 0, pairs, tuples, vectors, maps of such, and structs
  /// with tensors `data` and `target` (torch::data::Example); tensors without dimension and other
  /// values go to every replica as they are. A tensor may be on any device. `loss` returns the mean
  /// over its rows (the sum, with LossReduction::kSum); replicas call it at the same time, so what
  /// it captures must bear that. A replica without rows, when there are too few, calls it with the
  /// first rows and counts nothing.
  template <class... BatchThenLoss>
  at::Tensor backward(BatchThenLoss&&... batch_then_loss) {
    static_assert(sizeof...(batch_then_loss) >= 2, "backward(batch..., loss)");
    return backward_of(std::forward_as_tuple(batch_then_loss...),
                       std::make_index_sequence<sizeof...(batch_then_loss) - 1>());
  }

  /// The module's forward on shares of the arguments (see backward), without gradients; results are
  /// put together in the order of the rows, on the device of the first tensor given. For inference:
  /// say eval() before. Replicas without rows do nothing. Throws a usage error if a result has not
  /// one row per row given.
  template <class... Arguments>
  auto forward(const Arguments&... arguments) {
    using Result = std::decay_t<
        decltype(detail::module_of(modules_[0]).forward(std::declval<Arguments>()...))>;
    const int64_t rows = detail::rows_of_batch(arguments...);
    std::vector<std::optional<Result>> parts(modules_.size());
    group_->infer(rows, [&](int replica, int64_t from, int64_t count) {
      const auto shard =
          detail::Shard{from, count, group_->devices()[replica], group_->ring(replica)};
      parts[replica] = detail::module_of(modules_[replica]).forward(shard.of(arguments)...);
    });
    return detail::gather(std::move(parts), group_->rows(), detail::device_of(arguments...));
  }

  /// Makes each replica an optimizer: make_optimizer(module) returns one, or a pointer to one. They
  /// step together, each on its replica's thread.
  template <class MakeOptimizer>
  auto optimizer(MakeOptimizer&& make_optimizer) {
    using Made = std::invoke_result_t<MakeOptimizer&, Module&>;
    return ReplicatedOptimizer<detail::Pointee<Made>>(
        group_, [&](int replica) { return detail::as_pointer(make_optimizer, modules_[replica]); });
  }

  /// run(module) or run(module, index) on every replica's thread, between steps: clipping, changing
  /// weights by the same rule. What it does must leave the replicas equal; if it throws, the object
  /// is dead.
  template <class Run>
  void each(Run&& run) {
    group_->each([&](int replica) {
      if constexpr (std::is_invocable_v<Run&, Module&, int>)
        run(modules_[replica], replica);
      else
        run(modules_[replica]);
    });
  }

  /// Replica 0's parameters: for counting and printing. An optimizer over them alone would make the
  /// replicas differ; see optimizer().
  auto parameters() const { return modules_[0]->parameters(); }
  Module& module(int replica = 0) { return modules_.at(static_cast<size_t>(replica)); }
  /// After replica 0's tensors were changed alone (torch::load(dp.module(), …)): all take them.
  void broadcast_module() { group_->broadcast_module(); }

  void train(bool on = true) {
    for (Module& module : modules_) module->train(on);
  }
  void eval() { train(false); }
  bool is_training() const { return modules_[0]->is_training(); }
  /// Drops all gradients of all replicas. LibTorch's own zero_grad(), of a module or optimizer,
  /// throws while gradients are views of buckets.
  void zero_grad() { group_->zero_grad(); }

  int size() const { return group_->size(); }
  const std::vector<at::Device>& devices() const { return group_->devices(); }
  /// Rows that each replica took of the last batch.
  const std::vector<int64_t>& rows() const { return group_->rows(); }

  /// While the guard lives, each replica adds gradients up alone; the first backward after it
  /// averages the sums:
  ///
  ///     { auto pause = dp.no_sync(); dp.backward(a, loss); }
  ///     dp.backward(b, loss);   // the gradients of both, added
  class NoSync {
   public:
    explicit NoSync(std::shared_ptr<ReplicaGroup> group)
        : group_(std::move(group)), before_(group_->sync()) {
      group_->set_sync(false);
    }
    ~NoSync() { group_->set_sync(before_); }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    std::shared_ptr<ReplicaGroup> group_;
    bool before_;
  };
  [[nodiscard]] NoSync no_sync() { return NoSync(group_); }

 private:
  template <class Arguments, size_t... I>
  at::Tensor backward_of(Arguments arguments, std::index_sequence<I...>) {
    auto& loss = std::get<sizeof...(I)>(arguments);
    const int64_t rows = detail::rows_of_batch(std::get<I>(arguments)...);
    return group_->backward(rows, [&](int replica, int64_t from, int64_t count) -> at::Tensor {
      const auto shard =
          detail::Shard{from, count, group_->devices()[replica], group_->ring(replica)};
      return std::invoke(loss, modules_[replica], shard.of(std::get<I>(arguments))...);
    });
  }

  std::vector<Module> modules_;
  std::shared_ptr<ReplicaGroup> group_;  // its hooks on the modules go first
};

template <class MakeModule>
DataParallel(MakeModule&&, std::vector<at::Device>, DataParallelOptions = {})
    -> DataParallel<detail::MadeModule<MakeModule>>;

/// The optimizers of all replicas as one. Made by DataParallel::optimizer(); keeps what it needs
/// alive. Used by the thread that uses the DataParallel.
template <class Optimizer>
class ReplicatedOptimizer {
 public:
  using Pointer = std::shared_ptr<Optimizer>;

  ReplicatedOptimizer(std::shared_ptr<ReplicaGroup> group,
                      const std::function<Pointer(int replica)>& make)
      : group_(std::move(group)), optimizers_(static_cast<size_t>(group_->size())) {
    group_->each([&](int replica) { optimizers_[replica] = make(replica); });
  }

  /// Every replica's optimizer steps, on the replica's thread. If one throws, the replicas may
  /// differ, and the DataParallel is dead.
  void step() {
    group_->each([&](int replica) { optimizers_[replica]->step(); });
  }

  /// Drops the gradients of all replicas' parameters (set_to_none, as PyTorch's default).
  void zero_grad() { group_->zero_grad(); }

  /// change(optimizer) for each, here and now: learning rates.
  template <class Change>
  void each(Change&& change) {
    for (const Pointer& optimizer : optimizers_) change(*optimizer);
  }

  /// Replica 0's is the one to save: all have the same state.
  Optimizer& operator[](int replica) { return *optimizers_.at(static_cast<size_t>(replica)); }

 private:
  std::shared_ptr<ReplicaGroup> group_;
  std::vector<Pointer> optimizers_;
};

}  // namespace muster::parallel
