#include "muster/parallel/sharded/zero_core.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <utility>

#include <ATen/OpMathType.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/parallel/ddp/gradient_sync.h"

namespace muster::parallel {
namespace {

constexpr size_t kBroadcastBytes = 250 << 20;  // as PyTorch

struct PutAtEnd {
  const GradientMarks& marks;
  ~PutAtEnd() { marks.put(); }
};

/// What those hear that read a mark of the shard.
std::string text_of_marks() {
  return usage_error({.refused = "gradients of ZeRO's shard outside of zero.step(optimizer)",
                      .rule = "zero.step(optimizer) gives the shard its gradients and sends what "
                              "the optimizer made of it to the other ranks",
                      .hint = "write zero.step(optimizer) for optimizer.step(), "
                              "zero.clip_grad_norm(norm) for a clipping, and zero.zero_grad() for "
                              "a zero_grad(false); a GradScaler takes zero.optimizer(optimizer)"})
      .what();
}

ShardOptions shard_options(const ZeroOptions& options, const std::optional<UnitMap>& units) {
  ShardOptions out{.bucket_bytes = options.bucket_bytes,
                   .master_weights = options.master_weights,
                   .device = options.device};
  if (units) out.unit_of = [&units](const at::Tensor& parameter) { return units->of(parameter); };
  return out;
}

/// The units of stage 3.
std::optional<UnitMap> units_of(const ZeroOptions& options, const NamedTensors& parameters) {
  if (options.stage < 1 || options.stage > 3) {
    throw usage_error({.refused = "ZeRO stage",
                       .rule = "1 (optimizer state), 2 (and gradients) or 3 (and weights)",
                       .value = std::to_string(options.stage)});
  }
  if ((options.stage == 3) == options.units.empty()) {
    throw usage_error(
        {.refused = "ZeroOptions: units",
         .rule = "stage 3 gathers weights unit by unit, the other stages have them all",
         .value = concat("stage ", options.stage, " with ", options.units.size()),
         .hint = "name the submodules that forward calls by tensor::call_unit()"});
  }
  if (options.stage != 1 && has_comm_hook(options.comm_hook) &&
      !make_comm_hook(options.comm_hook, distributed::ProcessGroup(nullptr))->scatters())
    refuse_hook_of_shards(options.comm_hook);
  if (options.stage != 3) return std::nullopt;
  return UnitMap(options.units, parameters);
}

void bring_to(c10::Device device, const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (tensor.defined() && tensor.device() != device)
      at::Tensor(tensor).set_data(tensor.detach().to(device));
  }
}

/// Of stage 3.
std::unique_ptr<ShardedParameters> shard_frozen(const NamedTensors& parameters,
                                                const distributed::ProcessGroup& group,
                                                const ZeroOptions& options,
                                                const std::optional<UnitMap>& units) {
  if (!units || std::ranges::none_of(parameters, [](const auto& named) {
        return is_frozen_and_shardable(named.second);
      }))
    return nullptr;
  ShardOptions own = shard_options(options, units);
  own.frozen = true;
  own.master_weights = false;
  return std::make_unique<ShardedParameters>(parameters, group, own);
}

}  // namespace

ZeroCore::ZeroCore(const NamedTensors& parameters,
                   const NamedTensors& buffers,
                   distributed::ProcessGroup group,
                   const ZeroOptions& options)
    : ZeroCore(parameters, buffers, std::move(group), options, units_of(options, parameters)) {}

ZeroCore::ZeroCore(const NamedTensors& parameters,
                   const NamedTensors& buffers,
                   distributed::ProcessGroup group,
                   const ZeroOptions& options,
                   std::optional<UnitMap> units)
    : parameters_(parameters, std::move(group), shard_options(options, units)),
      frozen_(shard_frozen(parameters, parameters_.group(), options, units)),
      units_(units ? std::make_shared<ShardedUnits>(parameters_, frozen_.get(), *std::move(units))
                   : nullptr),
      identity_(parameters),
      marks_(parameters_.shard_tensors(), text_of_marks()) {
  NamedTensors frozen;
  for (const auto& named : parameters) {
    if (!named.second.requires_grad()) frozen.push_back(named);
  }
  if (options.device) {
    bring_to(*options.device, parameters);  // what is in shards is there
    bring_to(*options.device, buffers);
  }
  if (parameters_.group().world_size() > 1) {
    for (const auto& [name, buffer] : buffers) {
      if (buffer.defined()) all_buffers_.push_back(buffer.detach());
    }
  }
  if (options.stage == 1) {
    identity_.record(parameters_.parameters(), frozen);
    watch_backwards();
    return;
  }
  gradients_ = std::make_unique<ShardedGradients>(
      parameters_,
      ShardedGradientOptions{.find_unused_parameters = options.find_unused_parameters,
                             .before_backward =
                                 [this] {
                                   if (!dropped()) return;
                                   marks_.put();
                                   gradients_->drop();
                                 },
                             .hook = {}});
  if (has_comm_hook(options.comm_hook))
    register_comm_hook(make_comm_hook(options.comm_hook, parameters_.group()));
  if (units_ && options.find_unused_parameters) {
    units_->watch_backward([this] { gradients_->begin(); },
                           [this](size_t bucket) { gradients_->complete(bucket); });
  }
  identity_.record(parameters_.parameters(), frozen);
  if (parameters_.group().world_size() == 1) return;
  std::vector<at::Tensor> untrained = all_buffers_;  // the trained ones are rank 0's already
  if (options.broadcast_buffers) buffers_ = all_buffers_;
  std::unordered_set<const void*> in_shards;  // tied ones have several names
  if (frozen_)
    for (const auto& [name, parameter] : frozen_->parameters())
      in_shards.insert(parameter.unsafeGetTensorImpl());
  for (const auto& [name, parameter] : frozen) {
    if (!in_shards.contains(parameter.unsafeGetTensorImpl()))
      untrained.push_back(parameter.detach());
  }
  broadcast(untrained);
}

void ZeroCore::broadcast(const std::vector<at::Tensor>& tensors, int root) const {
  if (tensors.empty()) return;
  // A forward in inference mode would have tensors travel that other threads may not write to.
  const c10::InferenceMode no_inference(false);
  const c10::NoGradGuard no_grad;
  c10d::broadcast_coalesced(parameters_.group().c10d(), tensors, kBroadcastBytes, root);
}

void ZeroCore::before_forward() {
  if (dropped()) zero_grad();
  if (units_) units_->release_units();
  if (units_ || c10::GradMode::is_enabled()) take_weights();
  announce(c10::GradMode::is_enabled() ? ZeroJoinCall::kTraining : ZeroJoinCall::kForward);
  broadcast(buffers_, join_ ? join_->authority : 0);
}

/// Stage 1: before the first gradient of a backward is added to the parameters'.
void ZeroCore::watch_backwards() {
  for (const auto& [name, parameter] : parameters_.parameters()) {
    if (parameter.numel() == 0) continue;
    hooks_.add_before(parameter, [this] {
      if (!backward_.expired()) return;
      const auto alive = std::make_shared<char>();
      backward_ = alive;
      torch::autograd::Engine::get_default_engine().queue_callback(
          [this, alive] { backward_.reset(); });
      if (dropped()) zero_grad();
      if (averages_ != nullptr && averages_->sync()) backwards_ = backwards() + 1;
    });
  }
}

bool ZeroCore::dropped() const {
  if (gradients_ && gradients_->module_dropped()) return true;
  const size_t gone = marks_.gone();
  if (gone == 0 || gone == marks_.size()) return gone > 0;
  throw usage_error({.refused = "zero_grad() of a part of ZeRO's shard",
                     .rule = "gradients add up, or are dropped, of all parameters together",
                     .value = concat(gone, " of ", marks_.size(), " pieces"),
                     .hint = "write zero.zero_grad()"});
}

void ZeroCore::take_weights() {
  identity_.check();
  parameters_.take_weights();
  if (frozen_) frozen_->take_weights();
}

at::Tensor ZeroCore::gradient(size_t bucket, const ShardPiece& piece) const {
  if (gradients_) return gradients_->of(bucket, piece);
  const at::Tensor& parameter = parameters_.parameters()[piece.parameter].second;
  at::Tensor whole = parameter.grad();
  if (!whole.defined()) return {};
  if (whole.layout() != at::kStrided) {
    throw usage_error(
        {.refused = "gradient of parameter " + parameters_.parameters()[piece.parameter].first,
         .rule = "gradients of shards are dense"});
  }
  if (whole.strides() != parameter.strides()) {
    const at::Tensor dense =
        at::empty_strided(parameter.sizes(), parameter.strides(), whole.options());
    dense.copy_(whole);
    parameter.mutable_grad() = dense;  // so that clipping scales what the step sees
    whole = dense;
  }
  return at::as_strided(
      whole.detach(), {piece.end - piece.begin}, {1}, whole.storage_offset() + piece.begin);
}

std::vector<at::Tensor> ZeroCore::gradient_holders() {
  if (dropped()) zero_grad();
  std::vector<at::Tensor> all;
  if (!shards_gradients()) return tensors_of(parameters_.parameters());
  for (size_t b = 0; b < parameters_.buckets(); ++b) {
    for (const ShardPiece& piece :
         parameters_.layout(b).pieces(parameters_.group().rank(), parameters_.numels())) {
      const at::Tensor own = gradient(b, piece);
      if (!own.defined()) continue;
      all.push_back(own.detach());
      all.back().mutable_grad() = own;
    }
  }
  return all;
}

std::vector<at::Tensor> ZeroCore::shard(const std::function<bool(const std::string&)>& of) {
  const NamedTensors& whole = parameters_.parameters();
  if (std::none_of(
          whole.begin(), whole.end(), [&](const auto& named) { return of(named.first); })) {
    throw usage_error(
        {.refused = "a part of ZeRO's shard",
         .rule = "it has at least one of the module's trained parameters",
         .value = concat("none of ", whole.size(), ", ", whole[0].first, " among them")});
  }
  const NamedTensors own = parameters_.shard();
  std::vector<at::Tensor> picked;
  for (const auto& [name, tensor] : own) {
    if (of(name)) picked.push_back(tensor);
  }
  if (!picked.empty()) return picked;
  // An optimizer wants each tensor once. The one with a mark tells of a zero_grad().
  const at::Tensor any = parameters_.shard_tensors()[0];
  if (own.empty() && !std::exchange(gave_stand_in_, true)) return {any};
  return {at::empty({0}, any.options())};
}

void ZeroCore::require_shard(const std::vector<at::Tensor>& tensors) const {
  std::unordered_set<const void*> given;
  for (const at::Tensor& tensor : tensors) given.insert(tensor.unsafeGetTensorImpl());
  const auto has = [&](const auto& named) {
    return given.contains(named.second.unsafeGetTensorImpl());
  };
  const NamedTensors& whole = parameters_.parameters();
  const NamedTensors own = parameters_.shard();
  const auto wrong = std::find_if(whole.begin(), whole.end(), has);
  if (wrong == whole.end() && (own.empty() || std::any_of(own.begin(), own.end(), has))) return;
  throw usage_error({.refused = "a step of ZeRO with an optimizer over other tensors",
                     .rule = "a rank's optimizer updates that rank's shard",
                     .value = wrong == whole.end() ? "nothing of the shard"
                                                   : "parameter " + wrong->first + " of the module",
                     .hint = "make it over zero.shard() instead of net->parameters()"});
}

void ZeroCore::step(const std::function<void()>& update) {
  if (dropped()) zero_grad();
  announce(ZeroJoinCall::kStep);
  take_weights();
  if (units_) units_->release_all();  // what was gathered is of yesterday behind the step
  const PutAtEnd marks{marks_};
  marks_.lift();  // that of a rank without pieces too: its optimizer steps as all others
  for (size_t b = 0; b < parameters_.buckets(); ++b)
    parameters_.set_gradients(b, [&](const ShardPiece& piece) { return gradient(b, piece); });
  update();
  for (size_t b = 0; b < parameters_.buckets(); ++b) {
    parameters_.drop_gradients(b);
    parameters_.publish(b);
  }
  parameters_.wait();
}

void ZeroCore::step_by_bucket(const std::function<void(size_t)>& update) {
  if (dropped()) zero_grad();
  announce(ZeroJoinCall::kStep);
  take_weights();
  if (units_) units_->release_all();  // what was gathered is of yesterday behind the step
  const PutAtEnd marks{marks_};
  marks_.lift();  // that of a rank without pieces too: its optimizer steps as all others
  for (size_t b = 0; b < parameters_.buckets(); ++b) {
    parameters_.set_gradients(b, [&](const ShardPiece& piece) { return gradient(b, piece); });
    update(b);
    parameters_.drop_gradients(b);
    parameters_.publish(b);
  }
  parameters_.wait();
}

double ZeroCore::clip_grad_norm(double max_norm) {
  if (!(max_norm >= 0)) {
    throw usage_error({.refused = "gradient clipping",
                       .rule = "max_norm is not negative",
                       .value = shortest(max_norm)});
  }
  if (dropped()) zero_grad();
  announce(ZeroJoinCall::kClip, max_norm);
  const c10::NoGradGuard no_grad;
  const distributed::ProcessGroup& group = parameters_.group();
  std::vector<std::vector<at::Tensor>> gradients(parameters_.buckets());  // of one dtype each
  double squares = 0;
  for (size_t b = 0; b < parameters_.buckets(); ++b) {
    const auto& layout = parameters_.layout(b);
    for (const ShardPiece& piece : layout.pieces(group.rank(), parameters_.numels())) {
      if (const at::Tensor own = gradient(b, piece); own.defined()) gradients[b].push_back(own);
    }
    if (gradients[b].empty()) continue;
    // Norms of 16-bit gradients are float32; their squares add up in float64.
    const at::Tensor norms = at::stack(
        at::_foreach_norm(gradients[b], 2, at::toOpMathType(gradients[b][0].scalar_type())));
    squares += norms.to(at::kDouble).square().sum().item<double>();
  }
  const at::Tensor total = at::full({1}, squares, at::kDouble).to(group.device());
  if (group.world_size() > 1) group.all_reduce(total);
  const double norm = std::sqrt(total.item<double>());
  // NaN and infinity pass through, as in clip_grad_norm_: look at the norm.
  const double factor = max_norm / (norm + 1e-6);
  if (factor >= 1) return norm;
  for (const auto& list : gradients) {
    if (!list.empty()) at::_foreach_mul_(list, factor);
  }
  return norm;
}

void ZeroCore::zero_grad() {
  marks_.put();
  if (gradients_) return gradients_->zero_grad();
  backwards_ = 0;
  for (const auto& [name, parameter] : parameters_.parameters())
    parameter.mutable_grad() = at::Tensor();
}

}  // namespace muster::parallel
