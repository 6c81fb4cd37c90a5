#include "muster/parallel/ddp/direct_gradients.h"

#include <algorithm>
#include <bit>
#include <utility>

#include <ATen/ScalarOps.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include "muster/distributed/meet/backend.h"
#include "muster/parallel/hook/comm_hook.h"

namespace muster::parallel {
namespace {

/// Everything that asks for the Reducer's own ways.
bool wants_buckets(const distributed::ProcessGroup& group, const DdpOptions& options) {
  return group.world_size() == 1 || !group.backend_entry().needs_no_buckets ||
         has_comm_hook(options.comm_hook) || options.find_unused_parameters ||
         options.static_graph || options.bucket_bytes_cap == kAutoBucketBytes ||
         !options.sparse_gradients.empty();
}

bool dense_on_cpu(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.layout() == at::kStrided && tensor.is_contiguous();
}

bool is_large(const at::Tensor& parameter, int64_t bytes) {
  const bool summed_fast =
      parameter.scalar_type() == at::kFloat || parameter.scalar_type() == at::kDouble;
  return summed_fast && parameter.numel() > 0 && static_cast<int64_t>(parameter.nbytes()) >= bytes;
}

/// Collective: is it true on all ranks? Backends that need no buckets move CPU tensors.
bool on_all_ranks(bool here, const distributed::ProcessGroup& group) {
  const at::Tensor fits = at::full({1}, here ? 1 : 0, at::kLong);
  group.all_reduce(fits, c10d::ReduceOp::MIN);
  return fits.item<int64_t>() == 1;
}

size_t bytes_of(const NamedTensors& parameters) {
  size_t bytes = 0;
  for (const auto& [name, parameter] : parameters) bytes += parameter.nbytes();
  return bytes;
}

/// The Reducer cannot be without parameters.
void leave_smallest(NamedTensors& large, NamedTensors& small) {
  const auto smallest = std::min_element(large.begin(), large.end(), [](auto& a, auto& b) {
    return a.second.nbytes() < b.second.nbytes();
  });
  small.push_back(*smallest);
  large.erase(smallest);
}

/// The Reducer's buckets of complex parameters are real ones of twice the length, as of LibTorch
/// 2.15: here in the parameters' dtype, in the same memory.
at::Tensor in_dtype_of(const at::Tensor& parameter, const at::Tensor& flat) {
  if (!parameter.is_complex() || flat.is_complex()) return flat;
  return at::view_as_complex(flat.view({-1, 2}));
}

/// Is `grad`'s memory nobody else's? What backward has added to it may be it, or be the view whose
/// memory it is, and is still held by autograd: once, together with what it is a view of.
bool owns_memory(const at::Tensor& grad, const at::Tensor& incoming) {
  size_t holders = 1;
  if (incoming.defined() && incoming.is_alias_of(grad)) {
    if (incoming.use_count() != 1) return false;
    ++holders;
    if (incoming.is_view()) {
      if (incoming._base().use_count() != 1) return false;
      ++holders;
    }
  }
  return grad.is_contiguous() && grad.storage().use_count() == holders;
}

}  // namespace

/// Takes a bucket and gives it back to the Reducer unchanged.
class DirectGradients::BucketHook final : public c10d::CommHookInterface {
 public:
  explicit BucketHook(DirectGradients& gradients) : gradients_(gradients) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    gradients_.add_bucket(bucket);
    auto done = c10::make_intrusive<c10::ivalue::Future>(c10::TensorType::get());
    done->markCompleted(c10::IValue(bucket.getBuffer()));
    return done;
  }
  at::Tensor parseHookResult(const c10::IValue& result) override { return result.toTensor(); }

 private:
  DirectGradients& gradients_;
};

std::unique_ptr<DirectGradients> DirectGradients::make(const NamedTensors& parameters,
                                                       const distributed::ProcessGroup& group,
                                                       const DdpOptions& options) {
  if (wants_buckets(group, options)) return nullptr;
  NamedTensors large, small;
  bool fits = true;  // of this rank alone: devices and layouts may be others elsewhere
  for (const auto& named : parameters) {
    fits = fits && dense_on_cpu(named.second);
    (is_large(named.second, options.direct_bytes) ? large : small).push_back(named);
  }
  if (small.empty()) leave_smallest(large, small);
  if (large.empty() || (options.direct_bytes > 0 && bytes_of(large) < bytes_of(small)))
    return nullptr;
  if (!on_all_ranks(fits, group)) return nullptr;
  return std::make_unique<DirectGradients>(
      std::move(large), std::move(small), group, options.gradient_as_bucket_view);
}

DirectGradients::DirectGradients(NamedTensors large,
                                 NamedTensors small,
                                 distributed::ProcessGroup group,
                                 bool views)
    : group_(std::move(group)),
      small_(std::move(small)),
      views_(views),
      divides_exactly_(std::has_single_bit(static_cast<unsigned>(group_.world_size()))) {
  std::reverse(large.begin(), large.end());
  for (auto& [name, parameter] : large) large_.push_back({.name = name, .parameter = parameter});
  for (Large& each : large_) {
    hooks_.add(each.parameter,
               [this, &each](const at::Tensor& incoming) { arrived(each, incoming); });
  }
}

std::unique_ptr<c10d::CommHookInterface> DirectGradients::bucket_hook() {
  return std::make_unique<BucketHook>(*this);
}

void DirectGradients::expect_backward() {
  for (Large& each : large_) each.arrived = false;
  has_buckets_ = false;
  posted_ = 0;
  expecting_ = true;
}

std::vector<std::string> DirectGradients::missing() const {
  std::vector<std::string> names;
  for (const Large& each : large_) {
    if (!each.arrived) names.push_back(each.name);
  }
  return names;
}

void DirectGradients::arrived(Large& large, const at::Tensor& incoming) {
  if (!expects()) return;
  const c10::NoGradGuard no_grad;
  unfinished_ = large.arrived = true;
  at::Tensor& grad = large.parameter.mutable_grad();
  // The graph may reach a parameter with nothing: as in the Reducer, a gradient of zeros.
  if (!grad.defined()) grad = at::zeros_like(large.parameter);
  const bool in_place = owns_memory(grad, incoming);
  large.grad = grad.detach();
  large.mean = in_place ? large.grad : large.grad.clone(at::MemoryFormat::Contiguous);
  if (!divides_exactly_) large.mean.mul_(share());
  post_ready();
}

at::Tensor DirectGradients::share() const {
  return at::native::wrapped_scalar_tensor(1.0 / group_.world_size());
}

void DirectGradients::add_bucket(c10d::GradBucket& bucket) {
  const c10::NoGradGuard no_grad;
  unfinished_ = true;
  has_buckets_ = bucket.isLast();
  // As the Reducer without a hook: by the rounded 1 / world size, before the sum.
  if (views_) {
    buckets_.push_back({bucket.getBufferRef().mul_(share()), {}});
  } else {
    buckets_.push_back({at::mul(bucket.getBuffer(), share()), bucket.getParameters()});
  }
  post_ready();
}

void DirectGradients::post_ready() {
  while (posted_ < large_.size() && large_[posted_].arrived)
    post(large_[posted_++].mean, divides_exactly_);
  if (posted_ < large_.size() || !has_buckets_) return;
  for (Bucket& bucket : buckets_) post(bucket.mean, false);
  // After the Reducer's own callback, which is queued before the first of these two runs, and which
  // writes to the same gradients.
  torch::autograd::Engine::get_default_engine().queue_callback([this] {
    torch::autograd::Engine::get_default_engine().queue_callback([this] { wait_and_write(); });
  });
}

void DirectGradients::post(at::Tensor& tensor, bool average) {
  std::vector<at::Tensor> flat{tensor.view({-1})};
  c10d::AllreduceOptions options;
  options.reduceOp = average ? c10d::ReduceOp::AVG : c10d::ReduceOp::SUM;
  works_.push_back(group_.c10d()->allreduce(flat, options));
}

void DirectGradients::wait_and_write() {
  const c10::NoGradGuard no_grad;
  unfinished_ = expecting_ = false;
  const auto works = std::exchange(works_, {});
  const auto buckets = std::exchange(buckets_, {});
  for (const auto& work : works) work->wait();
  for (Large& each : large_) {
    if (!each.mean.is_same(each.grad)) each.grad.copy_(each.mean);
    each.grad = each.mean = at::Tensor();
  }
  for (const Bucket& bucket : buckets) {
    if (bucket.parameters.empty()) continue;
    const at::Tensor means = in_dtype_of(bucket.parameters[0], bucket.mean);
    int64_t from = 0;
    for (const at::Tensor& parameter : bucket.parameters) {
      const at::Tensor mean = means.narrow(0, from, parameter.numel()).view_as(parameter);
      parameter.grad().copy_(mean);
      from += parameter.numel();
    }
  }
}

}  // namespace muster::parallel
