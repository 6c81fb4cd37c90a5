#include "muster/parallel/pipeline/pipeline.h"

#include <algorithm>
#include <map>
#include <optional>

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/variable.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/parallel/pipeline/rank_step.h"
#include "muster/parallel/pipeline/stage.h"
#include "muster/parallel/threads/device_threads.h"
#include "muster/pipeline/order/lower.h"
#include "muster/pipeline/schedule/schedule.h"

namespace muster::parallel {
namespace {

using pipeline::ActionLists;
using std::chrono::milliseconds;

/// Where each stage begins, checked.
pipeline::Split split_of(const PipelineOptions& options, size_t blocks) {
  pipeline::Split first = options.first_block;
  if (first.empty())
    for (size_t i = 0; i < blocks; ++i) first.push_back(static_cast<int64_t>(i));
  bool fine = !first.empty() && first[0] == 0 && first.back() < static_cast<int64_t>(blocks);
  for (size_t i = 1; i < first.size(); ++i) fine = fine && first[i - 1] < first[i];
  if (fine) return first;
  throw usage_error(
      {.refused = "first blocks of stages",
       .rule = concat("they begin with 0, rise, and are among the ", blocks, " blocks"),
       .value = concat(at::IntArrayRef(first))});
}

std::vector<Block> blocks_between(const std::vector<Block>& blocks, int64_t from, int64_t to) {
  return {blocks.begin() + from, blocks.begin() + to};
}

void refuse_shared(const std::vector<NamedTensors>& stages) {
  for (size_t a = 0; a < stages.size(); ++a)
    for (size_t b = a + 1; b < stages.size(); ++b)
      for (const auto& [name, tensor] : stages[a])
        for (const auto& [other, same] : stages[b])
          if (tensor.is_same(same))
            throw usage_error(
                {.refused = concat("parameter ", name, " and ", other),
                 .rule = concat("stages ", a, " and ", b, " have no tensor in common"),
                 .hint = "give each its own, and tie them by PipelineOptions::tied"});
}

/// The forwards of the lists, and what they send.
ActionLists forward_part(ActionLists lists) {
  for (auto& list : lists.ranks)
    std::erase_if(list, [](const pipeline::Action& action) {
      return action.kind != pipeline::ActionKind::kForward &&
             action.kind != pipeline::ActionKind::kSendActivation &&
             action.kind != pipeline::ActionKind::kReceiveActivation;
    });
  return lists;
}

/// Outputs of the micro-batches, by row.
Tensors put_together(const std::vector<Tensors>& parts) {
  Tensors whole;
  for (size_t i = 0; !parts.empty() && i < parts[0].size(); ++i) {
    Tensors column;
    for (const Tensors& part : parts) column.push_back(part.at(i));
    const bool has_rows = column[0].defined() && column[0].dim() > 0;
    whole.push_back(has_rows ? at::cat(column) : column[0]);
  }
  return whole;
}

/// All that threads need while they are at a step: those that are left behind keep it.
struct Step {
  StepOrder order;
  ThreadCarrier carrier;
  std::vector<std::unique_ptr<RankStep>> ranks;
};

/// The action that lasts longest of those that last too long; ranks that wait are no cause.
std::exception_ptr find_stall(const Step& step,
                              const std::vector<c10::Device>& devices,
                              milliseconds timeout) {
  const auto now = RankStep::Clock::now();
  std::optional<RankStep::Place> worst;
  size_t rank = 0;
  for (size_t i = 0; i < step.ranks.size(); ++i) {
    const RankStep::Place place = step.ranks[i]->place();
    if (place.action == nullptr || is_receive(place.action->kind)) continue;
    if (now - place.since <= timeout || (worst && worst->since <= place.since)) continue;
    worst = place;
    rank = i;
  }
  if (!worst) return nullptr;
  return std::make_exception_ptr(environment_error(
      {.refused = concat("rank ", rank, " (", devices[rank], "): ", describe(*worst->action)),
       .rule = concat("a stall: it has not ended within ", timeout.count(), " ms"),
       .hint = "the step was given up; the next one waits until this action is over"}));
}

}  // namespace

struct Pipeline::State {
  State(std::vector<Block> all_blocks,
        std::vector<c10::Device> their_devices,
        PipelineLoss its_loss,
        PipelineOptions its_options);

  const ActionLists& lists_for(int64_t micro_batches);
  std::shared_ptr<Step> make_step(std::vector<MicroBatch> batches);
  void run(const std::shared_ptr<Step>& step, const std::shared_ptr<State>& self);
  void drop_gradients(int64_t rank);

  std::vector<Block> blocks;
  std::vector<c10::Device> devices;  // by rank
  PipelineLoss loss;
  PipelineOptions options;
  pipeline::Split first_block;
  pipeline::Placement placement;
  std::vector<Stage> stages;
  std::optional<TiedParameters> tied;
  std::map<int64_t, ActionLists> lists;
  bool failed = false;  // the step before has, and somebody was left behind in it
  std::unique_ptr<DeviceThreads> threads;
};

Pipeline::State::State(std::vector<Block> all_blocks,
                       std::vector<c10::Device> their_devices,
                       PipelineLoss its_loss,
                       PipelineOptions its_options)
    : blocks(std::move(all_blocks)),
      devices(std::move(their_devices)),
      loss(std::move(its_loss)),
      options(std::move(its_options)),
      first_block(split_of(options, blocks.size())) {
  if (devices.empty())
    throw usage_error({.refused = "no device", .rule = "a pipeline has one rank at least"});
  for (const c10::Device device : devices) require_device(device);
  placement = lists_for(options.micro_batches).placement;
  std::vector<NamedTensors> parameters;
  NamedTensors all;
  for (size_t s = 0; s < first_block.size(); ++s) {
    const bool last = s + 1 == first_block.size();
    const int64_t from = first_block[s];
    const int64_t to = last ? static_cast<int64_t>(blocks.size()) : first_block[s + 1];
    const auto& marks = options.checkpointed;
    const auto mark = [&](int64_t i) { return std::min<int64_t>(i, std::ssize(marks)); };
    stages.emplace_back(blocks_between(blocks, from, to),
                        devices[static_cast<size_t>(placement.rank_of(static_cast<int64_t>(s)))],
                        std::vector<bool>(marks.begin() + mark(from), marks.begin() + mark(to)));
    parameters.push_back(stages.back().parameters());
    all.insert(all.end(), parameters.back().begin(), parameters.back().end());
  }
  refuse_shared(parameters);
  for (const Stage& stage : stages)
    for (const Block& block : stage.blocks()) move_to(block, stage.device());
  tied.emplace(options.tied, all);
  const int intra = options.threads_per_rank > 0
                        ? options.threads_per_rank
                        : std::max(1, at::get_num_threads() / static_cast<int>(devices.size()));
  threads = std::make_unique<DeviceThreads>(devices, intra, "rank");
}

const ActionLists& Pipeline::State::lists_for(int64_t micro_batches) {
  const auto found = lists.find(micro_batches);
  if (found != lists.end()) return found->second;
  const pipeline::Schedule schedule = pipeline::make_schedule(options.schedule,
                                                              {.stages = std::ssize(first_block),
                                                               .ranks = std::ssize(devices),
                                                               .micro_batches = micro_batches});
  return lists
      .emplace(micro_batches, lower(with_averages(schedule.lists), pipeline::Sends::kBuffered))
      .first->second;
}

std::shared_ptr<Step> Pipeline::State::make_step(std::vector<MicroBatch> batches) {
  if (batches.empty())
    throw usage_error({.refused = "a step without micro-batches", .rule = "there is one at least"});
  auto step = std::make_shared<Step>();
  step->order.lists = lists_for(std::ssize(batches));
  step->order.batches = std::move(batches);
  step->order.synchronize = options.synchronizes;
  return step;
}

void Pipeline::State::drop_gradients(int64_t rank) {
  for (const int64_t number : placement.stages_of(rank)) {
    Stage& stage = stages[static_cast<size_t>(number)];
    stage.begin(0, false);
    for (const auto& [name, tensor] : stage.parameters()) tensor.mutable_grad() = at::Tensor();
  }
}

void Pipeline::State::run(const std::shared_ptr<Step>& step, const std::shared_ptr<State>& self) {
  const bool after_failure = failed, trains = step->order.loss != nullptr;
  for (int64_t rank = 0; rank < std::ssize(devices); ++rank) {
    std::map<int64_t, Stage*> mine;
    for (const int64_t stage : placement.stages_of(rank))
      mine[stage] = &stages[static_cast<size_t>(stage)];
    step->ranks.push_back(std::make_unique<RankStep>(step->order, rank, std::move(mine)));
  }
  const auto task = [step, self, after_failure](int rank) {
    if (after_failure) self->drop_gradients(rank);  // of whom was left behind, too
    step->ranks[static_cast<size_t>(rank)]->run(step->carrier);
  };
  const auto release = [step](int, const std::string& why) { step->carrier.close(why); };
  const milliseconds timeout = options.stall_timeout;
  const DeviceThreads::Watch watch{
      .every = std::clamp(timeout / 4, milliseconds(1), milliseconds(5000)),
      .look = [&] { return find_stall(*step, devices, timeout); }};
  failed = true;
  try {
    threads->run(task, release, watch);
  } catch (...) {
    if (!trains && threads->all_at_rest()) failed = after_failure;
    if (trains && threads->all_at_rest()) {
      for (int64_t rank = 0; rank < std::ssize(devices); ++rank) drop_gradients(rank);
      failed = false;
    }
    throw;
  }
  failed = false;
}

Pipeline::Pipeline(std::vector<Block> blocks,
                   std::vector<c10::Device> devices,
                   PipelineLoss loss,
                   PipelineOptions options)
    : state_(std::make_shared<State>(
          std::move(blocks), std::move(devices), std::move(loss), std::move(options))) {}

Pipeline::~Pipeline() = default;
Pipeline::Pipeline(Pipeline&&) noexcept = default;
Pipeline& Pipeline::operator=(Pipeline&&) noexcept = default;

PipelineStep Pipeline::step(const Tensors& inputs, const Tensors& targets, double scale) {
  return step(cut_batch(inputs, targets, state_->options.micro_batches), scale);
}

PipelineStep Pipeline::step(std::vector<MicroBatch> batches, double scale) {
  State& state = *state_;
  if (!c10::GradMode::is_enabled())
    throw usage_error({.refused = "a step of a pipeline",
                       .rule = "grad mode is on",
                       .hint = "forward() computes without gradients"});
  if (!state.loss)
    throw usage_error({.refused = "a step of a pipeline", .rule = "it was made with a loss"});
  const auto step = state.make_step(std::move(batches));
  step->order.weights = weights_of(step->order.batches, state.options.reduction);
  step->order.scale = scale;
  step->order.loss = state.loss;
  step->order.average = state.options.average;
  step->order.keeps_outputs = state.options.keeps_outputs;
  state.tied->copy_values();
  state.run(step, state_);
  state.tied->add_gradients();

  PipelineStep made;
  const RankStep& last = *step->ranks[static_cast<size_t>(state.placement.rank_of(stages() - 1))];
  for (const at::Tensor& loss : last.losses())
    made.loss = made.loss.defined() ? made.loss + loss : loss;
  if (state.options.keeps_outputs) made.outputs = put_together(last.outputs());
  for (const auto& rank : step->ranks) made.timeline.ranks.push_back(rank->spans());
  return made;
}

Tensors Pipeline::forward(const Tensors& inputs) {
  State& state = *state_;
  const at::NoGradGuard no_grad;
  const auto step = state.make_step(cut_batch(inputs, {}, state.options.micro_batches));
  step->order.lists = forward_part(std::move(step->order.lists));
  step->order.keeps_outputs = true;
  state.tied->copy_values();
  state.run(step, state_);
  return put_together(
      step->ranks[static_cast<size_t>(state.placement.rank_of(stages() - 1))]->outputs());
}

NamedTensors Pipeline::named_parameters() const {
  NamedTensors found;
  for (const Stage& stage : state_->stages)
    for (const auto& entry : stage.parameters())
      if (!state_->tied->is_follower(entry.second)) found.push_back(entry);
  return found;
}

std::vector<at::Tensor> Pipeline::parameters() const { return tensors_of(named_parameters()); }

NamedTensors Pipeline::named_buffers() const {
  NamedTensors found;
  for (const Stage& stage : state_->stages)
    for (const auto& entry : stage.buffers()) found.push_back(entry);
  return found;
}

void Pipeline::train(bool on) {
  for (const Block& block : state_->blocks)
    for (const auto& module : block.modules) module->train(on);
}

void Pipeline::zero_grad() {
  for (const Stage& stage : state_->stages)
    for (const auto& [name, tensor] : stage.parameters()) tensor.mutable_grad() = at::Tensor();
}

int64_t Pipeline::stages() const { return std::ssize(state_->stages); }
int64_t Pipeline::ranks() const { return std::ssize(state_->devices); }
c10::Device Pipeline::device_of_stage(int64_t stage) const {
  return state_->stages.at(static_cast<size_t>(stage)).device();
}
NamedTensors Pipeline::parameters_of_stage(int64_t stage) const {
  return state_->stages.at(static_cast<size_t>(stage)).parameters();
}
void Pipeline::set_stall_timeout(milliseconds timeout) { state_->options.stall_timeout = timeout; }

}  // namespace muster::parallel
