// Processes over TCP by LibTorch's Gloo. The only file that includes ProcessGroupGloo.hpp: the
// wheel ships no gloo headers, and Debian's are from 2022, so gloo types are used opaquely here:
// nothing of gloo's own is constructed or derived by us.
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/zeros.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/meet/backend.h"

namespace muster::distributed {
namespace {

using Gloo = c10d::ProcessGroupGloo;
using OptionsPtr = c10::intrusive_ptr<Gloo::Options>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<Tensors>;

/// What gloo does not know, by asking it: a group of one. Any thread.
class GlooKnowledge {
 public:
  static GlooKnowledge& of_process() {
    static GlooKnowledge knowledge;
    return knowledge;
  }

  /// Empty, or why such tensors cannot be sent, or, with `reduce`, be combined so.
  std::string refusal(const OptionsPtr& options,
                      at::ScalarType dtype,
                      const std::optional<c10d::ReduceOp>& reduce) {
    if (is_common(dtype, reduce)) return "";
    const std::lock_guard lock(mutex_);
    const int op = reduce ? static_cast<int>(reduce->op_) : -1;
    const auto [known, is_new] = refusals_.try_emplace({dtype, op});
    if (is_new) known->second = ask(options, dtype, reduce);
    return known->second;
  }

 private:
  static bool is_common(at::ScalarType dtype, const std::optional<c10d::ReduceOp>& reduce) {
    const bool is_plain = dtype == at::kFloat || dtype == at::kDouble || dtype == at::kLong ||
                          dtype == at::kInt || dtype == at::kByte;
    return is_plain && (!reduce || reduce->op_ == c10d::ReduceOp::SUM ||
                        reduce->op_ == c10d::ReduceOp::MIN || reduce->op_ == c10d::ReduceOp::MAX);
  }

  static std::string ask(const OptionsPtr& options,
                         at::ScalarType dtype,
                         const std::optional<c10d::ReduceOp>& reduce) {
    try {
      const auto alone =
          c10::make_intrusive<Gloo>(c10::make_intrusive<c10d::HashStore>(), 0, 1, options);
      Tensors tensors{at::zeros({1}, dtype)};
      if (!reduce) {
        alone->broadcast(tensors)->wait();
      } else {
        c10d::AllreduceOptions how;
        how.reduceOp = *reduce;
        alone->allreduce(tensors, how)->wait();
      }
      return "";
    } catch (const c10::Error& error) {
      return error.what_without_backtrace();
    } catch (const std::exception& error) {
      return error.what();
    }
  }

  std::mutex mutex_;
  std::map<std::pair<at::ScalarType, int>, std::string> refusals_;
};

/// Refuses at the call what gloo would refuse in a thread of its own, when the other ranks already
/// wait: all ranks refuse it, and the group stays whole. As c10d's callers know the operations; those
/// of newer names come by these.
class CheckedGloo final : public Gloo {
 public:
  CheckedGloo(const c10::intrusive_ptr<c10d::Store>& store,
              int rank,
              int size,
              const OptionsPtr& options)
      : Gloo(store, rank, size, options), made_with_(options) {}

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    check("BROADCAST", tensors);
    return Gloo::broadcast(tensors, options);
  }
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    check("ALLREDUCE", tensors, options.reduceOp);
    return Gloo::allreduce(tensors, options);
  }
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override {
    check("ALLREDUCE_COALESCED", tensors, options.reduceOp);
    return Gloo::allreduce_coalesced(tensors, options);
  }
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    check("REDUCE", tensors, options.reduceOp);
    return Gloo::reduce(tensors, options);
  }
  WorkPtr allgather(TensorLists& outputs,
                    Tensors& inputs,
                    const c10d::AllgatherOptions& options) override {
    check("ALLGATHER", inputs);
    return Gloo::allgather(outputs, inputs, options);
  }
  WorkPtr _allgather_base(at::Tensor& output,
                          at::Tensor& input,
                          const c10d::AllgatherOptions& options) override {
    check("ALLGATHER", {input});
    return Gloo::_allgather_base(output, input, options);
  }
  WorkPtr gather(TensorLists& outputs,
                 Tensors& inputs,
                 const c10d::GatherOptions& options) override {
    check("GATHER", inputs);
    return Gloo::gather(outputs, inputs, options);
  }
  WorkPtr scatter(Tensors& outputs,
                  TensorLists& inputs,
                  const c10d::ScatterOptions& options) override {
    check("SCATTER", outputs);
    return Gloo::scatter(outputs, inputs, options);
  }
  WorkPtr reduce_scatter(Tensors& outputs,
                         TensorLists& inputs,
                         const c10d::ReduceScatterOptions& options) override {
    check("REDUCE_SCATTER", outputs, options.reduceOp);
    return Gloo::reduce_scatter(outputs, inputs, options);
  }
  WorkPtr _reduce_scatter_base(at::Tensor& output,
                               at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override {
    check("REDUCE_SCATTER", {input}, options.reduceOp);
    return Gloo::_reduce_scatter_base(output, input, options);
  }
  WorkPtr alltoall(Tensors& outputs,
                   Tensors& inputs,
                   const c10d::AllToAllOptions& options) override {
    check("ALLTOALL", inputs);
    return Gloo::alltoall(outputs, inputs, options);
  }
  WorkPtr alltoall_base(at::Tensor& output,
                        at::Tensor& input,
                        std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits,
                        const c10d::AllToAllOptions& options) override {
    check("ALLTOALL", {input});
    return Gloo::alltoall_base(output, input, output_splits, input_splits, options);
  }

 private:
  /// What else is wrong with the tensors gloo says itself.
  void check(const char* call,
             const Tensors& tensors,
             const std::optional<c10d::ReduceOp>& reduce = std::nullopt) const {
    if (tensors.empty() || !tensors[0].defined() || tensors[0].is_sparse()) return;
    const at::ScalarType dtype = tensors[0].scalar_type();
    const std::string why = GlooKnowledge::of_process().refusal(made_with_, dtype, reduce);
    if (why.empty()) return;
    throw usage_error({.refused = concat(call, " of ", c10::toString(dtype), " over gloo"),
                       .rule = why,
                       .hint = "convert the tensor, or take the backend shm"});
  }

  const OptionsPtr made_with_;
};

c10::intrusive_ptr<c10d::Backend> make_gloo(const BackendRequest& request) {
  try {
    auto options = Gloo::Options::create(request.timeout);
    const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
    // Named explicitly: the default looks the host's own name up, which can take seconds or give an
    // unreachable address.
    options->devices.push_back(interface != nullptr ? Gloo::createDeviceForInterface(interface)
                                                    : Gloo::createDeviceForHostname(request.host));
    return c10::make_intrusive<CheckedGloo>(
        request.store, request.rank, request.world_size, options);
  } catch (const c10::Error& error) {
    throw environment_error({.refused = "gloo could not connect the ranks",
                             .rule = error.what_without_backtrace(),
                             .hint = "check that all ranks were started and can reach " +
                                     request.host + " (GLOO_SOCKET_IFNAME names an interface)"});
  }
}

}  // namespace

extern constinit const BackendEntry gloo_entry{
    "gloo",
    "processes of one or many hosts over TCP; CPU tensors",
    10,
    c10d::ProcessGroup::BackendType::GLOO,
    [] { return std::string(); },
    &make_gloo,
    true,
    false,
    nullptr,
    nullptr,
    /*needs_no_buckets=*/false,
    /*names_culprits=*/false,
    /*completes_futures=*/true};

}  // namespace muster::distributed
