// Ranks that are threads of one process. See Note [Thread ranks].
#include <ATen/core/Tensor.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/parallel/backend.h"
#include "muster/parallel/thread_board.h"

namespace muster::parallel {
namespace {

using c10d::OpType;
using Tensors = std::vector<at::Tensor>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

/// c10d's face of a ThreadBoard for one rank. Used by that rank's thread (and autograd's, one at a
/// time).
class ThreadBackend : public c10d::Backend {
 public:
  ThreadBackend(std::shared_ptr<ThreadBoard> board, int rank, std::chrono::milliseconds timeout)
      : c10d::Backend(rank, board->world_size()),
        board_(std::move(board)),
        options_(c10::make_intrusive<c10d::Backend::Options>("thread", timeout)) {}

  const std::string getBackendName() const override { return "thread"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
  uint64_t getSequenceNumberForGroup() override { return sequence_; }
  void setTimeout(std::chrono::milliseconds timeout) override { board_->set_timeout(timeout); }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return post(
        {.op = OpType::BROADCAST, .inputs = tensors, .root = static_cast<int>(options.rootRank)});
  }
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return post({.op = OpType::ALLREDUCE, .inputs = tensors, .reduce_op = options.reduceOp});
  }
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override {
    return post(
        {.op = OpType::ALLREDUCE_COALESCED, .inputs = tensors, .reduce_op = options.reduceOp});
  }
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    return post({.op = OpType::REDUCE,
                 .inputs = tensors,
                 .root = static_cast<int>(options.rootRank),
                 .reduce_op = options.reduceOp});
  }
  WorkPtr allgather(std::vector<Tensors>& outputs,
                    Tensors& inputs,
                    const c10d::AllgatherOptions&) override {
    return post({.op = OpType::ALLGATHER, .inputs = inputs, .outputs = outputs.at(0)});
  }
  WorkPtr _allgather_base(at::Tensor& output,
                          at::Tensor& input,
                          const c10d::AllgatherOptions&) override {
    return post({.op = OpType::_ALLGATHER_BASE, .inputs = {input}, .outputs = {output}});
  }
  WorkPtr gather(std::vector<Tensors>& outputs,
                 Tensors& inputs,
                 const c10d::GatherOptions& options) override {
    return post({.op = OpType::GATHER,
                 .inputs = inputs,
                 .outputs = outputs.empty() ? Tensors{} : outputs[0],
                 .root = static_cast<int>(options.rootRank)});
  }
  WorkPtr scatter(Tensors& outputs,
                  std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override {
    return post({.op = OpType::SCATTER,
                 .inputs = inputs.empty() ? Tensors{} : inputs[0],
                 .outputs = outputs,
                 .root = static_cast<int>(options.rootRank)});
  }
  WorkPtr reduce_scatter(Tensors& outputs,
                         std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override {
    return post({.op = OpType::REDUCE_SCATTER,
                 .inputs = inputs.at(0),
                 .outputs = outputs,
                 .reduce_op = options.reduceOp});
  }
  WorkPtr _reduce_scatter_base(at::Tensor& output,
                               at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override {
    return post({.op = OpType::_REDUCE_SCATTER_BASE,
                 .inputs = {input},
                 .outputs = {output},
                 .reduce_op = options.reduceOp});
  }
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions&) override {
    return post({.op = OpType::ALLTOALL, .inputs = inputs, .outputs = outputs});
  }
  WorkPtr alltoall_base(at::Tensor& output,
                        at::Tensor& input,
                        std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits,
                        const c10d::AllToAllOptions&) override {
    return post({.op = OpType::ALLTOALL_BASE,
                 .inputs = {input},
                 .outputs = {output},
                 .output_splits = output_splits,
                 .input_splits = input_splits});
  }
  WorkPtr barrier(const c10d::BarrierOptions&) override { return post({.op = OpType::BARRIER}); }

  WorkPtr send(Tensors& tensors, int to, int tag) override {
    return board_->send(getRank(), to, tag, tensors.at(0));
  }
  WorkPtr recv(Tensors& tensors, int from, int tag) override {
    return board_->receive(from, getRank(), tag, tensors.at(0));
  }
  WorkPtr recvAnysource(Tensors& tensors, int tag) override {
    return board_->receive(-1, getRank(), tag, tensors.at(0));
  }

 private:
  WorkPtr post(Contribution contribution) {
    return board_->post(getRank(), sequence_++, std::move(contribution));
  }

  std::shared_ptr<ThreadBoard> board_;
  c10::intrusive_ptr<Options> options_;
  uint64_t sequence_ = 0;
};

c10::intrusive_ptr<c10d::Backend> make(const BackendRequest& request) {
  if (!request.board) {
    throw usage_error(
        {.refused = "backend thread",
         .rule = "its ranks are threads of one process, so a launcher cannot start them",
         .hint = "use muster::testing::run_ranks or ThreadWorld, or choose gloo for processes"});
  }
  return c10::make_intrusive<ThreadBackend>(request.board, request.rank, request.timeout);
}

}  // namespace

extern constinit const BackendEntry thread_entry{
    "thread",
    "ranks are threads of one process; sums in rank order, no copies between processes",
    -1,
    c10d::ProcessGroup::BackendType::CUSTOM,
    [] { return std::string(); },
    &make,
    true,
    true};

}  // namespace muster::parallel
