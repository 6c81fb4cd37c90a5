// What not every LibTorch's backends have. A name that ours has not is not there to be passed on: so
// it is looked for when this is compiled.
#include <algorithm>

#include "muster/base/error.h"
#include "muster/distributed/monitor/decorated_backend.h"

namespace muster::distributed {
namespace {

/// The call, where there is such a thing; else what is said instead.
template <class Call, class Else>
auto if_there(c10d::Backend& inner, Call call, Else otherwise) {
  if constexpr (std::is_invocable_v<Call, c10d::Backend&>)
    return call(inner);
  else
    return otherwise();
}

[[noreturn]] void refuse_feature(const char* name) {
  throw usage_error({.refused = name, .rule = "this LibTorch's backends do not have it"});
}

template <class Inner>
concept GathersSingle = requires(Inner& inner, at::Tensor& tensor, const c10d::GatherOptions& how) {
  inner.gather_single(tensor, tensor, how);
};

template <class Inner>
class GatherPosting final : public Posting {
 public:
  GatherPosting(Inner& inner, at::Tensor& output, at::Tensor& input, c10d::GatherOptions options)
      : inner_(inner), output_(output), input_(input), options_(std::move(options)) {}

  WorkPtr post() override { return later()(); }
  std::function<WorkPtr()> later() const override {
    return [&inner = inner_,
            output = output_,
            input = input_,
            options = options_]() mutable -> WorkPtr {
      if constexpr (GathersSingle<Inner>)
        return inner.gather_single(output, input, options);
      else
        refuse_feature("gather_single");
    };
  }

 private:
  Inner& inner_;
  at::Tensor output_, input_;
  c10d::GatherOptions options_;
};

}  // namespace

DecoratedBackend::WorkPtr DecoratedBackend::all_gather_single(
    at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) {
  return _allgather_base(output, input, options);
}

DecoratedBackend::WorkPtr DecoratedBackend::reduce_scatter_single(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  return _reduce_scatter_base(output, input, options);
}

DecoratedBackend::WorkPtr DecoratedBackend::all_to_all_single(
    at::Tensor& output,
    at::Tensor& input,
    std::vector<int64_t>& output_splits,
    std::vector<int64_t>& input_splits,
    const c10d::AllToAllOptions& options) {
  return alltoall_base(output, input, output_splits, input_splits, options);
}

/// Of the output, which only the root has, nothing is recorded: all ranks' records are alike.
DecoratedBackend::WorkPtr DecoratedBackend::gather_single(at::Tensor& output,
                                                          at::Tensor& input,
                                                          const c10d::GatherOptions& options) {
  const Tensors inputs{input};
  const OpCall call{.kind = diagnose::OpKind::kGather,
                    .type = c10d::OpType::GATHER,
                    .inputs = inputs,
                    .root = static_cast<int>(options.rootRank),
                    .timeout = std::max(options.timeout, std::chrono::milliseconds(0))};
  GatherPosting<c10d::Backend> posting(*inner_, output, input, options);
  return around(call, posting);
}

DecoratedBackend::WorkPtr DecoratedBackend::gather_into_tensor(at::Tensor& output,
                                                               at::Tensor& input,
                                                               const c10d::GatherOptions& options) {
  return gather_single(output, input, options);
}

void DecoratedBackend::startTimeEstimate() {
  if_there(
      *inner_,
      [](auto& b) requires requires { b.startTimeEstimate(); } { b.startTimeEstimate(); },
      [] { refuse_feature("startTimeEstimate"); });
}

float DecoratedBackend::endTimeEstimate() {
  return if_there(
      *inner_,
      [](auto& b) requires requires { b.endTimeEstimate(); } { return b.endTimeEstimate(); },
      []() -> float { refuse_feature("endTimeEstimate"); });
}

bool DecoratedBackend::isInitialized() {
  return if_there(
      *inner_,
      [](auto& b) requires requires { b.isInitialized(); } { return b.isInitialized(); },
      [] { return true; });
}

bool DecoratedBackend::supportsShrinking() const {
  return if_there(
      *inner_,
      [](auto& b) requires requires { b.supportsShrinking(); } { return b.supportsShrinking(); },
      [] { return false; });
}

c10::intrusive_ptr<c10d::Backend> DecoratedBackend::shrink(
    const std::vector<int64_t>& without, int flags, const c10::intrusive_ptr<Options>& options) {
  return if_there(
      *inner_,
      [&](auto& b) requires requires { b.shrink(without, flags, options); } {
        return b.shrink(without, flags, options);
      },
      []() -> c10::intrusive_ptr<c10d::Backend> { refuse_feature("shrink"); });
}

void DecoratedBackend::addEphemeralTimeout(const std::chrono::milliseconds& timeout) {
  if_there(
      *inner_,
      [&](auto& b) requires requires { b.addEphemeralTimeout(timeout); } {
        b.addEphemeralTimeout(timeout);
      },
      [] {});
}

void DecoratedBackend::suspend() {
  if_there(
      *inner_,
      [](auto& b) requires requires { b.suspend(); } { b.suspend(); },
      [] { refuse_feature("suspend"); });
}

void DecoratedBackend::resume() {
  if_there(
      *inner_,
      [](auto& b) requires requires { b.resume(); } { b.resume(); },
      [] { refuse_feature("resume"); });
}

std::unordered_map<std::string, uint64_t> DecoratedBackend::getMemoryStats() {
  return if_there(
      *inner_,
      [](auto& b) requires requires { b.getMemoryStats(); } { return b.getMemoryStats(); },
      []() -> std::unordered_map<std::string, uint64_t> { refuse_feature("getMemoryStats"); });
}

std::optional<at::Device> DecoratedBackend::getBoundDeviceId() const {
  return inner_->getBoundDeviceId();
}

void DecoratedBackend::setBoundDeviceId(std::optional<at::Device> device) {
  inner_->setBoundDeviceId(device);
}

}  // namespace muster::distributed
