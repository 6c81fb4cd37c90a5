#include "muster/parallel/pipeline/rank_step.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <string>

#include <ATen/autocast_mode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/parallel/precision/autocast.h"
#include "muster/pipeline/order/letters_taken.h"
#include "muster/tensor/what_of.h"

namespace muster::parallel {
namespace {

using pipeline::Action;
using pipeline::ActionKind;

double seconds(RankStep::Clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

/// Backward runs in the dtypes that forward chose, whatever the caller's autocast says.
class WithoutAutocast {
 public:
  explicit WithoutAutocast(c10::Device device) {
    if (at::autocast::is_autocast_available(device.type()) &&
        at::autocast::is_autocast_enabled(device.type()))
      off_.emplace(device.type(), AutocastOptions{.enabled = false});
  }

 private:
  std::optional<AutocastGuard> off_;
};

}  // namespace

RankStep::RankStep(const StepOrder& order, int64_t rank, std::map<int64_t, Stage*> stages)
    : order_(order),
      list_(order.lists.ranks.at(static_cast<size_t>(rank))),
      stages_(std::move(stages)),
      losses_(order.batches.size()),
      outputs_(order.batches.size()) {
  spans_.reserve(list_.size());
  if (order.holds_letters) taken_ = pipeline::surely_taken(order.lists, rank);
}

RankStep::Place RankStep::place() const {
  const int64_t position = position_.load(std::memory_order_acquire);
  if (position < 0 || position >= static_cast<int64_t>(list_.size())) return {};
  return {&list_[static_cast<size_t>(position)],
          Clock::time_point(Clock::duration(since_.load(std::memory_order_relaxed)))};
}

std::string RankStep::work() const {
  const Place at = place();
  return at.action != nullptr && is_compute(at.action->kind) ? describe(*at.action) : "";
}

void RankStep::run(Carrier& carrier) {
  const bool splits = std::ranges::any_of(
      list_, [](const Action& action) { return action.kind == ActionKind::kBackwardInput; });
  order_.ready.wait_on_current();
  for (auto& [number, stage] : stages_) stage->begin(order_.lists.micro_batches, splits);
  for (size_t i = 0; i < list_.size(); ++i) {
    auto start = Clock::now();
    since_.store(start.time_since_epoch().count(), std::memory_order_relaxed);
    position_.store(static_cast<int64_t>(i), std::memory_order_release);
    lent_.erase(lent_.begin(), lent_.upper_bound(static_cast<int64_t>(i)));
    try {
      carrier.check();
      if (is_receive(list_[i].kind)) {  // what it waits is nobody's work
        carrier.await(list_[i]);
        start = Clock::now();
      }
      carry_out(list_[i], carrier);
      const c10::Device device = stages_.at(list_[i].stage)->device();
      if (order_.synchronize && !device.is_cpu())
        c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
    } catch (...) {
      tensor::throw_behind(describe(list_[i]));
    }
    spans_.push_back({list_[i], seconds(start), seconds(Clock::now())});
  }
  position_.store(static_cast<int64_t>(list_.size()), std::memory_order_release);
}

void RankStep::carry_out(const Action& action, Carrier& carrier) {
  const Key key{action.stage, action.micro_batch};
  Stage& stage = *stages_.at(action.stage);
  switch (action.kind) {
    case ActionKind::kForward:
      return forward(action);
    case ActionKind::kBackward: {
      const WithoutAutocast off(stage.device());
      return hand_back(action, stage.backward(action.micro_batch, gradients_for(action)));
    }
    case ActionKind::kBackwardInput: {
      const WithoutAutocast off(stage.device());
      return hand_back(action, stage.backward_input(action.micro_batch, gradients_for(action)));
    }
    case ActionKind::kBackwardWeight: {
      const WithoutAutocast off(stage.device());
      return stage.backward_weight(action.micro_batch);
    }
    case ActionKind::kSendActivation:
      return send(action, std::move(sent_forward_.extract(key).mapped()), carrier);
    case ActionKind::kSendGradient:
      return send(action, std::move(sent_back_.extract(key).mapped()), carrier);
    case ActionKind::kReceiveActivation:
      inputs_[key] = carrier.receive(action, stage.device());
      return;
    case ActionKind::kReceiveGradient:
      gradients_[key] = carrier.receive(action, stage.device());
      return;
    case ActionKind::kAverageGradients:
      if (order_.average) order_.average(action.stage);
      return;
  }
}

void RankStep::send(const Action& action, Handed handed, Carrier& carrier) {
  if (carrier.make_ready(handed) && order_.holds_letters)
    lent_.emplace(taken_[static_cast<size_t>(position())], handed);
  carrier.send(action, std::move(handed));
}

void RankStep::forward(const Action& action) {
  const auto batch = static_cast<size_t>(action.micro_batch);
  const Key key{action.stage, action.micro_batch};
  Stage& stage = *stages_.at(action.stage);
  Handed inputs;
  if (action.stage == 0) {
    // Views of one batch, which a block may write to, count their versions together.
    Tensors given = order_.batches[batch].inputs;
    for (at::Tensor& tensor : given)
      if (tensor.defined()) tensor = tensor.variable_data();
    inputs = on_device({given, std::vector<bool>(given.size(), false)}, stage.device());
  } else {
    inputs = std::move(inputs_.extract(key).mapped());
  }
  Handed made = stage.forward(action.micro_batch, inputs);
  if (is_last(action.stage)) {
    if (order_.keeps_outputs) outputs_[batch] = std::move(made.tensors);
    if (!order_.loss) return;
    const Tensors& given = order_.batches[batch].targets;
    const Handed targets = on_device({given, {}}, stage.device());
    const double weight = order_.weights[batch];
    losses_[batch] =
        stage.loss(action.micro_batch, order_.loss, targets.tensors, weight, order_.scale) * weight;
    return;
  }
  if (order_.lists.placement.crosses_after(action.stage)) {
    sent_forward_[key] = std::move(made);
  } else {
    inputs_[{action.stage + 1, action.micro_batch}] = std::move(made);
  }
}

Tensors RankStep::gradients_for(const Action& action) {
  if (is_last(action.stage)) return {};
  return std::move(gradients_.extract({action.stage, action.micro_batch}).mapped().tensors);
}

void RankStep::hand_back(const Action& action, Tensors gradients) {
  if (action.stage == 0) return;
  Handed handed{std::move(gradients), {}};
  if (order_.lists.placement.crosses_after(action.stage - 1)) {
    sent_back_[{action.stage, action.micro_batch}] = std::move(handed);
  } else {
    gradients_[{action.stage - 1, action.micro_batch}] = std::move(handed);
  }
}

}  // namespace muster::parallel
