#include "muster/parallel/sharded/sharded_gradients.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <ATen/ScalarOps.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/engine.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/single_tensor.h"
#include "muster/parallel/module/missing_gradients.h"

namespace muster::parallel {
namespace {

constexpr size_t kBucketsInFlight = 2;

/// Padding goes through the sum with the gradients; it is zero, so that it costs no slow arithmetic
/// and warns of nothing.
void clear_padding(const at::Tensor& buffer,
                   const ShardBucket& layout,
                   const NamedTensors& parameters) {
  int64_t end = 0;
  for (size_t i = 0; i < layout.parameters.size(); ++i) {
    if (layout.offsets[i] > end) buffer.narrow(0, end, layout.offsets[i] - end).zero_();
    end = layout.offsets[i] + parameters[layout.parameters[i]].second.numel();
  }
  if (buffer.numel() > end) buffer.narrow(0, end, buffer.numel() - end).zero_();
}

}  // namespace

ShardedGradients::ShardedGradients(const ShardedParameters& parameters,
                                   ShardedGradientOptions options)
    : parameters_(parameters),
      options_(std::move(options)),
      divisor_(parameters.group().world_size()) {
  const size_t count = parameters.parameters().size();
  bucket_of_.resize(count);
  place_of_.resize(count);
  reached_.assign(count, false);
  for (size_t b = 0; b < parameters.buckets(); ++b) {
    const ShardBucket& layout = parameters.layout(b);
    for (size_t i = 0; i < layout.parameters.size(); ++i) {
      bucket_of_[layout.parameters[i]] = b;
      place_of_[layout.parameters[i]] = i;
    }
  }
  shards_.resize(parameters.buckets());
  order_.resize(parameters.buckets());
  std::iota(order_.begin(), order_.end(), 0);
  // Buckets of units are in the order of the model, and backward comes to the last one first.
  if (parameters.shards_weights()) std::reverse(order_.begin(), order_.end());
  put_late_last();
  reset();
  for (size_t i = 0; i < count; ++i) {
    const at::Tensor& parameter = parameters.parameters()[i].second;
    if (parameter.numel() == 0) continue;
    hooks_.add(parameter, [this, i](const at::Tensor&) { arrived(i); });
  }
  mark_smallest();
}

at::Tensor ShardedGradients::of(size_t bucket, const ShardPiece& piece) const {
  if (!shards_[bucket].defined() || !reached_[piece.parameter]) return {};
  return shards_[bucket].narrow(0, piece.offset, piece.end - piece.begin);
}

std::vector<at::Tensor> ShardedGradients::held(size_t bucket) const {
  std::vector<at::Tensor> all{filling_[bucket].buffer, shards_[bucket]};
  for (const Flight& flight : flights_)
    if (flight.bucket == bucket) all.insert(all.end(), {flight.buffer, flight.sum});
  std::erase_if(all, [](const at::Tensor& tensor) { return !tensor.defined(); });
  return all;
}

void ShardedGradients::mark_smallest() {
  const std::pair<std::string, at::Tensor>* smallest = nullptr;
  for (const auto& named : parameters_.parameters()) {
    const int64_t size = named.second.numel();
    if (size > 0 && (smallest == nullptr || size < smallest->second.numel())) smallest = &named;
  }
  if (smallest == nullptr) return;
  const Error text =
      usage_error({.refused = concat("gradient of parameter ", smallest->first),
                   .rule = "with ZeRO's stage 2 gradients are in shards, and parameters have none",
                   .hint = "make the optimizer over zero.shard() and write zero.step(optimizer), "
                           "zero.clip_grad_norm(norm) and zero.zero_grad()"});
  mark_ = GradientMarks({smallest->second}, text.what());
  hooks_.add_before(smallest->second, [this] {
    if (backward_.expired()) begin_backward();
    mark_.lift();
  });
}

void ShardedGradients::drop() {
  for (at::Tensor& shard : shards_) shard = at::Tensor();
  reached_.assign(reached_.size(), false);
  backwards_ = 0;
}

void ShardedGradients::zero_grad() {
  drop();
  for (const auto& [name, parameter] : parameters_.parameters())
    at::Tensor(parameter).mutable_grad() = at::Tensor();
  mark_.put();
  reset();
}

void ShardedGradients::reset() {
  backward_.reset();
  is_ending_ = false;
  next_ = 0;
  flights_.clear();
  filled_.clear();
  arrived_.assign(bucket_of_.size(), false);
  filling_.assign(parameters_.buckets(), {});
  for (size_t b = 0; b < filling_.size(); ++b)
    filling_[b].missing = parameters_.layout(b).parameters.size();
}

void ShardedGradients::begin_backward() {
  reset();  // an earlier one may have thrown
  if (options_.before_backward) options_.before_backward();
  // Autograd holds the callback as long as the backward, and drops it if that throws. It also drops
  // it at the end: of a backward on a device in that device's thread, when backward() may have
  // returned and the next one begun. So what belongs to the end is done in the callback.
  const std::shared_ptr<bool> ended(new bool(false), [mark = mark_](bool* was_ended) {
    if (!*was_ended) mark.put();
    delete was_ended;
  });
  backward_ = ended;
  torch::autograd::Engine::get_default_engine().queue_callback([this, ended] {
    end_backward();
    mark_.put();
    *ended = true;
  });
}

void ShardedGradients::arrived(size_t parameter) {
  const c10::NoGradGuard no_grad;
  if (backward_.expired()) begin_backward();
  const auto& [name, tensor] = parameters_.parameters()[parameter];
  if (arrived_[parameter]) {
    throw usage_error({.refused = "gradient of parameter " + name,
                       .rule = "it arrives once in a backward",
                       .value = "a second one",
                       .hint = "a graph that is walked again from inside a backward (reentrant "
                               "checkpointing) cannot be sharded"});
  }
  const at::Tensor gradient = std::exchange(at::Tensor(tensor).mutable_grad(), at::Tensor());
  if (gradient.defined() && gradient.layout() != at::kStrided)
    throw usage_error(
        {.refused = "gradient of parameter " + name, .rule = "gradients of shards are dense"});
  // The graph may reach a parameter with nothing. As in DDP that is a gradient of zeros, unless
  // unused parameters are looked for.
  fill(parameter, gradient.defined() ? gradient.detach() : gradient);
  if (gradient.defined() || !options_.find_unused_parameters) reached_[parameter] = true;
  launch_full();
}

/// Puts a gradient, or zeros for an undefined one, to its place.
void ShardedGradients::fill(size_t parameter, const at::Tensor& gradient) {
  const size_t bucket = bucket_of_[parameter];
  const ShardBucket& layout = parameters_.layout(bucket);
  Filling& filling = filling_[bucket];
  const at::Tensor& tensor = parameters_.parameters()[parameter].second;
  const int world = parameters_.group().world_size();
  if (!filling.buffer.defined()) {
    filling.buffer = at::empty({layout.chunk * world}, tensor.options().requires_grad(false));
    clear_padding(filling.buffer, layout, parameters_.parameters());
  }
  at::Tensor place = at::as_strided(
      filling.buffer, tensor.sizes(), tensor.strides(), layout.offsets[place_of_[parameter]]);
  // As c10d's Reducer: by the rounded 1 / world size, before the sum, so that results are DDP's.
  if (!gradient.defined()) {
    place.zero_();
  } else if (options_.hook) {
    place.copy_(gradient);
  } else {
    at::mul_out(place, gradient, at::native::wrapped_scalar_tensor(1.0 / divisor_));
  }
  arrived_[parameter] = true;
  if (--filling.missing == 0) filled_.push_back(bucket);
}

void ShardedGradients::launch_full() {
  while (next_ < order_.size() && filling_[order_[next_]].missing == 0 &&
         (is_ending_ || !is_late(order_[next_]))) {
    launch(order_[next_++]);
  }
}

bool ShardedGradients::is_late(size_t bucket) const {
  return options_.find_unused_parameters && parameters_.shards_weights() &&
         parameters_.unit(bucket) == 0;
}

void ShardedGradients::put_late_last() {
  std::stable_partition(
      order_.begin(), order_.end(), [this](size_t bucket) { return !is_late(bucket); });
}

void ShardedGradients::begin() {
  if (backward_.expired()) begin_backward();
}

void ShardedGradients::shadow_backward() {
  const c10::NoGradGuard no_grad;
  reset();
  if (options_.before_backward) options_.before_backward();
  for (size_t i = 0; i < arrived_.size(); ++i) {
    if (parameters_.parameters()[i].second.numel() == 0) continue;
    fill(i, {});
    if (!options_.find_unused_parameters) reached_[i] = true;
  }
  launch_full();
  end_backward();
}

void ShardedGradients::complete(size_t bucket) {
  const c10::NoGradGuard no_grad;
  for (const size_t parameter : parameters_.layout(bucket).parameters) {
    if (!arrived_[parameter]) fill(parameter, {});
  }
  launch_full();
}

void ShardedGradients::launch(size_t bucket) {
  if (flights_.size() == kBucketsInFlight) land();
  Flight flight{.bucket = bucket, .buffer = std::move(filling_[bucket].buffer)};
  flight.dtype = flight.buffer.scalar_type();
  if (options_.hook) flight.buffer = options_.hook->before_scatter(flight.buffer);
  if (parameters_.group().world_size() == 1) {
    flight.sum = flight.buffer;
  } else {
    flight.sum = at::empty({parameters_.layout(bucket).chunk}, flight.buffer.options());
    flight.work = distributed::detail::reduce_scatter_single(
        *parameters_.group().c10d(), flight.sum, flight.buffer);
  }
  flights_.push_back(std::move(flight));
}

void ShardedGradients::land() {
  Flight flight = std::move(flights_.front());
  flights_.erase(flights_.begin());
  if (flight.work) flight.work->wait();
  if (options_.hook) flight.sum = options_.hook->after_scatter(flight.sum, flight.dtype);
  at::Tensor& shard = shards_[flight.bucket];
  if (shard.defined()) {
    shard.add_(flight.sum);
  } else {
    shard = flight.sum;
  }
}

void ShardedGradients::end_backward() {
  const c10::NoGradGuard no_grad;
  backward_.reset();
  is_ending_ = true;
  if (next_ < order_.size()) {
    if (!options_.find_unused_parameters) refuse_missing();
    for (size_t i = 0; i < arrived_.size(); ++i) {
      if (!arrived_[i] && parameters_.parameters()[i].second.numel() > 0) fill(i, {});
    }
    launch_full();
  }
  while (!flights_.empty()) land();
  ++backwards_;
  if (!order_learnt_) learn_order();
  if (options_.find_unused_parameters) complete_unused();
}

/// Modules are not always registered in the order in which they run.
void ShardedGradients::learn_order() {
  order_learnt_ = true;
  const distributed::ProcessGroup& group = parameters_.group();
  if (group.world_size() == 1) {
    order_ = filled_;
    put_late_last();
    return;
  }
  at::Tensor order = at::empty({static_cast<int64_t>(filled_.size())}, at::kLong);
  std::copy(filled_.begin(), filled_.end(), order.mutable_data_ptr<int64_t>());
  order = order.to(group.device());
  group.broadcast(order);
  order = order.cpu();
  const int64_t* learnt = order.const_data_ptr<int64_t>();
  order_.assign(learnt, learnt + order.numel());
  put_late_last();
}

/// A parameter counts as reached where any rank reached it.
void ShardedGradients::complete_unused() {
  const auto count = static_cast<int64_t>(reached_.size());
  at::Tensor flags = at::zeros({count}, at::kInt);
  for (int64_t i = 0; i < count; ++i)
    flags.mutable_data_ptr<int>()[i] = reached_[static_cast<size_t>(i)] ? 1 : 0;
  flags = flags.to(parameters_.group().device());
  parameters_.group().all_reduce(flags, c10d::ReduceOp::MAX);
  flags = flags.cpu();
  for (int64_t i = 0; i < count; ++i)
    reached_[static_cast<size_t>(i)] = flags.const_data_ptr<int>()[i] != 0;
}

void ShardedGradients::refuse_missing() {
  std::vector<std::string> names;
  for (size_t i = 0; i < arrived_.size(); ++i) {
    const auto& [name, tensor] = parameters_.parameters()[i];
    if (!arrived_[i] && tensor.numel() > 0) names.push_back(name);
  }
  reset();
  throw missing_gradients(
      parameters_.group().rank(),
      names,
      "",
      "set find_unused_parameters (a program: --find-unused-parameters), or let "
      "every output of forward take part in the loss");
}

}  // namespace muster::parallel
