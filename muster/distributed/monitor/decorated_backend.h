// A backend around a backend: what all decorators share. Each operation comes to one place.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "muster/diagnose/record/op_record.h"
#include "muster/distributed/call/messages.h"

namespace muster::distributed {

/// What an operation was called with, for those who look at it. References into the call.
struct OpCall {
  diagnose::OpKind kind;
  c10d::OpType type;
  const std::vector<at::Tensor>& inputs;
  std::vector<at::Tensor> outputs;  ///< empty: the inputs are the outputs
  int root = -1;                    ///< or peer
  uint8_t reduce = 0;
  int tag = 0;
  std::chrono::milliseconds timeout{0};  ///< of this call; 0: the group's
  bool blocks = false;                   ///< the caller waits at once (asyncOp is off)
};

/// The call, ready to be made once, now or later.
class Posting {
 public:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  virtual ~Posting() = default;
  virtual WorkPtr post() = 0;
  /// The same with copies of all arguments.
  virtual std::function<WorkPtr()> later() const = 0;
};

/// Passes everything on to `inner`; operations by way of `around`.
class DecoratedBackend : public c10d::Backend, public Messenger {
 public:
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<Tensors>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  explicit DecoratedBackend(c10::intrusive_ptr<c10d::Backend> inner);

  const c10::intrusive_ptr<c10d::Backend>& inner() const { return inner_; }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(TensorLists& outputs,
                    Tensors& inputs,
                    const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output,
                          at::Tensor& input,
                          const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(TensorLists& outputs,
                              Tensors& inputs,
                              const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs,
                                          Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr gather(TensorLists& outputs,
                 Tensors& inputs,
                 const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs,
                  TensorLists& inputs,
                  const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs,
                         TensorLists& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output,
                               at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs,
                                          Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall(Tensors& outputs,
                   Tensors& inputs,
                   const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output,
                        at::Tensor& input,
                        std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits,
                        const c10d::AllToAllOptions& options) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  WorkPtr send_message(const Message& message) override;
  WorkPtr receive_message(const Message& message) override;
  void end_in_order() override { distributed::end_in_order(*inner_); }

  // Names of newer LibTorch (2.12 on) for three of the above. Both lead to the same place; without
  // these, c10d's forwarding from name to name would take a wrapped backend that knows only the old
  // name for one that knows neither.
  WorkPtr all_gather_single(at::Tensor& output,
                            at::Tensor& input,
                            const c10d::AllgatherOptions& options);
  WorkPtr reduce_scatter_single(at::Tensor& output,
                                at::Tensor& input,
                                const c10d::ReduceScatterOptions& options);
  WorkPtr all_to_all_single(at::Tensor& output,
                            at::Tensor& input,
                            std::vector<int64_t>& output_splits,
                            std::vector<int64_t>& input_splits,
                            const c10d::AllToAllOptions& options);

  // What newer LibTorch has beside these (decorated_features.cpp): passed on where the backend that
  // is wrapped has it, else what c10d's own Backend says.
  WorkPtr gather_single(at::Tensor& output, at::Tensor& input, const c10d::GatherOptions& options);
  WorkPtr gather_into_tensor(at::Tensor& output,
                             at::Tensor& input,
                             const c10d::GatherOptions& options);
  void startTimeEstimate();
  float endTimeEstimate();
  bool isInitialized();
  bool supportsShrinking() const;
  c10::intrusive_ptr<c10d::Backend> shrink(const std::vector<int64_t>& without,
                                           int flags,
                                           const c10::intrusive_ptr<Options>& options);
  void addEphemeralTimeout(const std::chrono::milliseconds& timeout);
  void suspend();
  void resume();
  std::unordered_map<std::string, uint64_t> getMemoryStats();
  std::optional<at::Device> getBoundDeviceId() const;
  void setBoundDeviceId(std::optional<at::Device> device);

  void setSequenceNumberForGroup() override { inner_->setSequenceNumberForGroup(); }
  void registerOnCompletionHook(
      std::function<void(std::shared_ptr<c10d::WorkInfo>)>&& hook) override {
    inner_->registerOnCompletionHook(std::move(hook));
  }
  const std::string getBackendName() const override { return inner_->getBackendName(); }
  c10::intrusive_ptr<Options> getBackendOptions() override { return inner_->getBackendOptions(); }
  bool supportsSplitting() const override { return inner_->supportsSplitting(); }
  bool supportsCoalescing() const override { return inner_->supportsCoalescing(); }
  bool supportsTimeEstimation() const override { return inner_->supportsTimeEstimation(); }
  void setTimeout(std::chrono::milliseconds timeout) override { inner_->setTimeout(timeout); }
  void startCoalescing() override { inner_->startCoalescing(); }
  WorkPtr endCoalescing() override { return inner_->endCoalescing(); }
  void monitoredBarrier(const c10d::BarrierOptions& options, bool all) override {
    inner_->monitoredBarrier(options, all);
  }
  uint64_t getSequenceNumberForGroup() override { return inner_->getSequenceNumberForGroup(); }
  void enableCollectivesTiming() override { inner_->enableCollectivesTiming(); }
  void waitForPendingWorks() override { inner_->waitForPendingWorks(); }
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                          const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<Options>& options) override {
    return inner_->split(store, ranks, options);
  }
  void setGroupUid(const std::string& uid) override;
  void eagerConnectSingleDevice(at::Device device) override {
    inner_->eagerConnectSingleDevice(device);
  }
  c10d::ErrorType getError() override { return inner_->getError(); }
  std::shared_ptr<c10::Allocator> getMemAllocator() override { return inner_->getMemAllocator(); }
  at::Tensor allocateTensor(long size, at::TensorOptions options) override {
    return inner_->allocateTensor(size, options);
  }
  bool supportsTensorAlloc(c10::DeviceIndex device) override {
    return inner_->supportsTensorAlloc(device);
  }
  void abort() override { inner_->abort(); }
  void shutdown() override { inner_->shutdown(); }

 protected:
  /// Makes the call, or does something else. The result is what the caller gets.
  virtual WorkPtr around(const OpCall& call, Posting& posting) = 0;

  c10::intrusive_ptr<c10d::Backend> inner_;

 private:
  template <class Invoke, class... Arguments>
  WorkPtr pass(const OpCall& call, Invoke invoke, Arguments&... arguments);
};

}  // namespace muster::distributed
