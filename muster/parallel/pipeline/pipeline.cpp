#include "muster/parallel/pipeline/pipeline.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/parallel/pipeline/cut.h"
#include "muster/parallel/pipeline/pipeline_checks.h"
#include "muster/parallel/pipeline/rank_step.h"
#include "muster/parallel/pipeline/stage.h"
#include "muster/parallel/pipeline/stall_watch.h"
#include "muster/parallel/threads/device_threads.h"
#include "muster/tensor/device/streams.h"

namespace muster::parallel {
using std::chrono::milliseconds;

/// The model, cut. Threads that are left behind keep it.
struct PipelineStages {
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
struct PipelineRun {
  std::shared_ptr<PipelineStages> model;
  StepOrder order;
  ThreadCarrier carrier;
  std::vector<std::unique_ptr<RankStep>> ranks;
};

namespace {

/// Where the step's ranks are.
std::vector<StallWatch::Spot> spots_of(const PipelineRun& step) {
  std::vector<StallWatch::Spot> spots;
  spots.reserve(step.ranks.size());
  for (const auto& rank : step.ranks) {
    const bool has_begun = rank->position() >= 0;  // before it is asked where it is
    const RankStep::Place place = rank->place();
    spots.push_back({has_begun, place.action, place.since});
  }
  return spots;
}

}  // namespace

struct Pipeline::State {
  State(std::vector<Block> all_blocks,
        std::vector<c10::Device> their_devices,
        PipelineLoss its_loss,
        PipelineOptions its_options);

  std::shared_ptr<PipelineRun> make_step(std::vector<MicroBatch> batches);
  void run(const std::shared_ptr<PipelineRun>& step);
  PipelineStep result_of(const PipelineRun& step);
  const RankStep& last_rank_of(const PipelineRun& step) const {
    return *step.ranks[static_cast<size_t>(
        model->placement.rank_of(model->placement.stages() - 1))];
  }

  std::vector<Block> blocks;
  std::vector<c10::Device> devices;  // by rank
  PipelineLoss loss;
  PipelineOptions options;
  pipeline::Split first_block;
  std::shared_ptr<PipelineStages> model = std::make_shared<PipelineStages>();
  std::optional<TiedParameters> tied;
  StepLists lists;
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
      first_block(split_of(options.first_block, blocks.size())),
      lists(options.schedule,
            std::ssize(first_block),
            std::ssize(devices),
            pipeline::Sends::kBuffered) {
  if (devices.empty())
    throw usage_error({.refused = "no device", .rule = "a pipeline has one rank at least"});
  for (const c10::Device device : devices) require_device(device);
  stall_timeout_of(options.stall_timeout);
  if (options.threads_per_rank < 0)
    throw usage_error({.refused = "PipelineOptions::threads_per_rank",
                       .rule = "0, the caller's number divided by ranks, or more",
                       .value = concat(options.threads_per_rank)});
  model->placement = lists.of(options.micro_batches).placement;
  std::vector<StagePlace> places;
  for (int64_t stage = 0; stage < std::ssize(first_block); ++stage) {
    const c10::Device device = devices[static_cast<size_t>(model->placement.rank_of(stage))];
    places.push_back({device, std::count(devices.begin(), devices.end(), device) > 1});
  }
  model->stages = cut(blocks, first_block, options.checkpointed, places);
  NamedTensors all;
  for (const Stage& stage : model->stages) {
    for (const Block& block : stage.blocks()) move_to(block, stage.device());
    for (const auto& entry : stage.parameters()) all.push_back(entry);
  }
  tied.emplace(options.tied, all);
  const int intra = options.threads_per_rank > 0
                        ? options.threads_per_rank
                        : std::max(1, at::get_num_threads() / static_cast<int>(devices.size()));
  threads = std::make_unique<DeviceThreads>(devices, intra, "rank");
}

std::shared_ptr<PipelineRun> Pipeline::State::make_step(std::vector<MicroBatch> batches) {
  if (batches.empty())
    throw usage_error({.refused = "a step without micro-batches", .rule = "there is one at least"});
  auto step = std::make_shared<PipelineRun>();
  step->model = model;
  Tensors all;
  for (const MicroBatch& batch : batches)
    for (const Tensors* tensors : {&batch.inputs, &batch.targets})
      all.insert(all.end(), tensors->begin(), tensors->end());
  step->order.ready = tensor::StreamMark::of_current(tensor::stream_devices(all));
  step->order.lists = lists.of(std::ssize(batches));
  step->order.batches = std::move(batches);
  step->order.synchronize = options.synchronizes;
  return step;
}

void Pipeline::State::run(const std::shared_ptr<PipelineRun>& step) {
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
  const auto every = std::clamp(timeout / 4, milliseconds(1), milliseconds(5000));
  StallWatch watch(devices, timeout, 2 * every);
  const DeviceThreads::Overseer overseer{
      .every = every,
      .look = [&] { return watch.look(spots_of(*step), StallWatch::Clock::now()); }};
  failed = true;
  try {
    threads->run(task, release, overseer);
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
  check_training(state.loss, scale, batches);
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

PipelineStep Pipeline::State::result_of(const PipelineRun& step) {
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
