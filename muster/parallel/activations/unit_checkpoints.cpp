#include "muster/parallel/activations/unit_checkpoints.h"

#include <algorithm>
#include <utility>

#include <c10/core/GradMode.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/parallel/activations/blocks.h"
#include "muster/parallel/activations/checkpointed.h"
#include "muster/parallel/activations/run_state.h"

namespace muster::parallel {

UnitCheckpoints::UnitCheckpoints(const BlockRule& rule,
                                 std::vector<tensor::Unit> units,
                                 RecomputeOptions options)
    : rule_(rule), units_(std::move(units)), options_(std::move(options)) {
  measured_.resize(units_.size());
  if (rule_.kind == BlockRule::Kind::kBudget) return;
  choice_ = blocks_by_rule(rule_, std::vector<BlockBytes>(units_.size()));
}

std::vector<at::Tensor> UnitCheckpoints::call(std::string_view unit,
                                              const tensor::UnitForward& forward,
                                              const std::vector<at::Tensor>& inputs) {
  const auto found = std::find_if(
      units_.begin(), units_.end(), [&](const tensor::Unit& one) { return one.name == unit; });
  if (found == units_.end() || !c10::GradMode::is_enabled()) return hand_on(unit, forward, inputs);
  const auto number = static_cast<size_t>(found - units_.begin());
  const bool again = choice_ ? (*choice_)[number] : true;
  if (!again) return hand_on(unit, forward, inputs);
  if (!choice_) measure(number, forward, inputs);
  RecomputeOptions options = options_;
  options.buffers.insert(options.buffers.end(), found->buffers.begin(), found->buffers.end());
  return checkpointed(std::move(options), forward, inputs);
}

void UnitCheckpoints::measure(size_t unit,
                              const tensor::UnitForward& forward,
                              const std::vector<at::Tensor>& inputs) {
  if (measured_[unit]) return;  // it runs several times in a forward
  if (inputs.size() != 1) {
    throw usage_error(
        {.refused = concat("unit ", units_[unit].name, " within a budget of activations"),
         .rule = "a unit whose bytes are weighed takes one tensor",
         .value = concat(inputs.size()),
         .hint = "say which units are checkpointed by another rule: blocks, or every:K"});
  }
  BlockMeter meter;
  const RunState state(inputs, options_.generators);
  state.run_in(units_[unit].buffers, [&] {
    (void)meter.call([&](const at::Tensor& input) { return forward({input})[0]; }, inputs[0]);
  });
  measured_[unit] = meter.blocks()[0];
  std::vector<BlockBytes> blocks;
  for (const auto& one : measured_) {
    if (!one) return;
    blocks.push_back(*one);
  }
  choice_ = blocks_by_rule(rule_, blocks);
}

}  // namespace muster::parallel
