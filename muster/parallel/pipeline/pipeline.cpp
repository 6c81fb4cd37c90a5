#include "muster/parallel/pipeline/pipeline.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <c10/core/GradMode.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/parallel/pipeline/pipeline_checks.h"
#include "muster/parallel/pipeline/rank_step.h"
#include "muster/parallel/pipeline/stage.h"
#include "muster/parallel/threads/device_threads.h"
#include "muster/pipeline/order/lower.h"
#include "muster/pipeline/schedule/schedule.h"
#include "muster/tensor/device/streams.h"

namespace muster::parallel {
namespace {

using pipeline::ActionLists;
using std::chrono::milliseconds;

std::vector<Block> blocks_between(const std::vector<Block>& blocks, int64_t from, int64_t to) {
  return {blocks.begin() + from, blocks.begin() + to};
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
    const bool is_there = column[0].defined();
    whole.push_back(!is_there              ? column[0]
                    : column[0].dim() == 0 ? at::stack(column)
                                           : at::cat(column));
  }
  return whole;
}

/// The model, cut. Threads that are left behind keep it.
struct Stages {
  void drop_gradients(int64_t rank) {
    for (const int64_t number : placement.stages_of(rank)) {
      Stage& stage = stages[static_cast<size_t>(number)];
      stage.begin(0, false);
      for (const auto& [name, tensor] : stage.parameters()) tensor.mutable_grad() = at::Tensor();
    }
  }
  void drop_gradients() {
    for (int64_t rank = 0; rank < placement.ranks(); ++rank) drop_gradients(rank);
  }

  pipeline::Placement placement;
  std::vector<Stage> stages;
};

/// All that threads need while they are at a step: those that are left behind keep it.
struct Step {
  std::shared_ptr<Stages> model;
  StepOrder order;
  ThreadCarrier carrier;
  std::vector<std::unique_ptr<RankStep>> ranks;
};

/// The action that lasts longest of those that last too long. A rank that waits for another's
/// message is no cause, unless all wait: then a message does not get through.
std::exception_ptr find_stall(const Step& step,
                              const std::vector<c10::Device>& devices,
                              milliseconds timeout) {
  const auto now = RankStep::Clock::now();
  std::optional<RankStep::Place> worst;
  size_t rank = 0;
  bool all_wait = true;
  for (const bool waiting : {false, true}) {
    for (size_t i = 0; i < step.ranks.size() && (!waiting || (!worst && all_wait)); ++i) {
      const RankStep::Place place = step.ranks[i]->place();
      if (place.action == nullptr) continue;
      if (!is_receive(place.action->kind)) all_wait = false;
      if (is_receive(place.action->kind) != waiting) continue;
      if (std::chrono::duration_cast<milliseconds>(now - place.since) <= timeout) continue;
      if (worst && worst->since <= place.since) continue;
      worst = place;
      rank = i;
    }
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
  void run(const std::shared_ptr<Step>& step);
  PipelineStep result_of(const Step& step);
  const RankStep& last_rank_of(const Step& step) const {
    return *step.ranks[static_cast<size_t>(
        model->placement.rank_of(model->placement.stages() - 1))];
  }

  std::vector<Block> blocks;
  std::vector<c10::Device> devices;  // by rank
  PipelineLoss loss;
  PipelineOptions options;
  pipeline::Split first_block;
  std::shared_ptr<Stages> model = std::make_shared<Stages>();
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
  stall_timeout_of(options.stall_timeout);
  refuse_repeated_names(blocks);
  if (!options.checkpointed.empty() && options.checkpointed.size() != blocks.size())
    throw usage_error({.refused = "which blocks are checkpointed",
                       .rule = "that is said of all or none",
                       .value = concat(options.checkpointed.size(), " of ", blocks.size())});
  model->placement = lists_for(options.micro_batches).placement;
  const pipeline::Placement& placement = model->placement;
  std::vector<NamedTensors> parameters, buffers;
  NamedTensors all;
  for (size_t s = 0; s < first_block.size(); ++s) {
    const bool last = s + 1 == first_block.size();
    const int64_t from = first_block[s];
    const int64_t to = last ? static_cast<int64_t>(blocks.size()) : first_block[s + 1];
    const c10::Device device =
        devices[static_cast<size_t>(placement.rank_of(static_cast<int64_t>(s)))];
    const bool shares = std::count(devices.begin(), devices.end(), device) > 1;
    std::vector<bool> again;
    if (!options.checkpointed.empty())
      again.assign(options.checkpointed.begin() + from, options.checkpointed.begin() + to);
    for (int64_t i = from; shares && !again.empty() && i < to; ++i)
      if (options.checkpointed[static_cast<size_t>(i)])
        refuse_shared_draws(blocks[static_cast<size_t>(i)], device);
    model->stages.emplace_back(blocks_between(blocks, from, to), device, std::move(again), shares);
    parameters.push_back(model->stages.back().parameters());
    buffers.push_back(model->stages.back().buffers());
    all.insert(all.end(), parameters.back().begin(), parameters.back().end());
  }
  refuse_shared(parameters);
  refuse_shared(buffers);
  for (const Stage& stage : model->stages)
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
  step->model = model;
  Tensors all;
  for (const MicroBatch& batch : batches)
    for (const Tensors* tensors : {&batch.inputs, &batch.targets})
      all.insert(all.end(), tensors->begin(), tensors->end());
  step->order.ready = tensor::StreamMark::of_current(tensor::stream_devices(all));
  step->order.lists = lists_for(std::ssize(batches));
  step->order.batches = std::move(batches);
  step->order.synchronize = options.synchronizes;
  return step;
}

void Pipeline::State::run(const std::shared_ptr<Step>& step) {
  const bool after_failure = failed, trains = step->order.loss != nullptr;
  for (int64_t rank = 0; rank < std::ssize(devices); ++rank) {
    std::map<int64_t, Stage*> mine;
    for (const int64_t stage : model->placement.stages_of(rank))
      mine[stage] = &model->stages[static_cast<size_t>(stage)];
    step->ranks.push_back(std::make_unique<RankStep>(step->order, rank, std::move(mine)));
  }
  const auto task = [step, after_failure](int rank) {
    if (after_failure) step->model->drop_gradients(rank);  // of whom was left behind, too
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
    if (threads->all_at_rest()) {
      if (trains || after_failure) model->drop_gradients();
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
    : state_(std::make_unique<State>(
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
  if (!std::isfinite(scale))
    throw usage_error({.refused = "the scale of a pipeline's gradients",
                       .rule = "it is finite",
                       .value = concat(scale)});
  refuse_inputs_with_graph(batches);
  const auto step = state.make_step(std::move(batches));
  step->order.weights = weights_of(step->order.batches, state.options.reduction);
  step->order.scale = scale;
  step->order.loss = state.loss;
  step->order.average = state.options.average;
  step->order.keeps_outputs = state.options.keeps_outputs;
  state.tied->copy_values();
  state.run(step);
  try {
    return state.result_of(*step);
  } catch (...) {
    state.model->drop_gradients();
    throw;
  }
}

PipelineStep Pipeline::State::result_of(const Step& step) {
  PipelineStep made;
  const RankStep& last = last_rank_of(step);
  for (const at::Tensor& loss : last.losses())
    made.loss = made.loss.defined() ? made.loss + loss : loss;
  if (options.keeps_outputs) made.outputs = put_together(last.outputs());
  for (const auto& rank : step.ranks) made.timeline.ranks.push_back(rank->spans());
  tied->add_gradients();
  return made;
}

Tensors Pipeline::forward(const Tensors& inputs) {
  State& state = *state_;
  const at::NoGradGuard no_grad;
  const auto step = state.make_step(cut_batch(inputs, {}, state.options.micro_batches));
  step->order.lists = forward_part(std::move(step->order.lists));
  step->order.keeps_outputs = true;
  state.tied->copy_values();
  state.run(step);
  return put_together(state.last_rank_of(*step).outputs());
}

NamedTensors Pipeline::named_parameters() const {
  NamedTensors found;
  for (const Stage& stage : state_->model->stages)
    for (const auto& entry : stage.parameters())
      if (!state_->tied->is_follower(entry.second)) found.push_back(entry);
  return found;
}

std::vector<at::Tensor> Pipeline::parameters() const { return tensors_of(named_parameters()); }

NamedTensors Pipeline::named_buffers() const {
  NamedTensors found;
  for (const Stage& stage : state_->model->stages)
    for (const auto& entry : stage.buffers()) found.push_back(entry);
  return found;
}

void Pipeline::train(bool on) {
  for (const Block& block : state_->blocks)
    for (const auto& module : block.modules) module->train(on);
}

void Pipeline::zero_grad() {
  if (!state_->threads->all_at_rest())
    return;  // the next step drops them, when nobody adds any more
  state_->model->drop_gradients();
}

int64_t Pipeline::stages() const { return std::ssize(state_->model->stages); }
int64_t Pipeline::ranks() const { return std::ssize(state_->devices); }
c10::Device Pipeline::device_of_stage(int64_t stage) const {
  return state_->model->stages.at(static_cast<size_t>(stage)).device();
}
NamedTensors Pipeline::parameters_of_stage(int64_t stage) const {
  return state_->model->stages.at(static_cast<size_t>(stage)).parameters();
}
void Pipeline::set_stall_timeout(milliseconds timeout) {
  state_->options.stall_timeout = stall_timeout_of(timeout);
}

}  // namespace muster::parallel
