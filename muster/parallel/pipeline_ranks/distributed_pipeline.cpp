#include "muster/parallel/pipeline_ranks/distributed_pipeline.h"

#include <bit>
#include <map>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/InferenceMode.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/rank_activity.h"
#include "muster/parallel/pipeline/pipeline_checks.h"
#include "muster/parallel/pipeline/rank_step.h"
#include "muster/parallel/pipeline_ranks/gathered_spans.h"
#include "muster/parallel/pipeline_ranks/group_carrier.h"
#include "muster/parallel/pipeline_ranks/rank_model.h"
#include "muster/parallel/pipeline_ranks/stage_averages.h"
#include "muster/parallel/pipeline_ranks/step_verdict.h"
#include "muster/parallel/pipeline_ranks/step_words.h"

namespace muster::parallel {

/// What a caller of a rank wants.
struct StepRequest {
  bool trains = true;
  std::vector<MicroBatch> batches;  ///< of the first stage's rank, and of the last one's
  int64_t rows = -1;                ///< of the batch, where this rank knows them
  double scale = 1;
  bool has_targets = false;            ///< this rank was given some, whether it needs them or not
  std::optional<RankFailure> failure;  ///< why it cannot be made
};

struct DistributedPipeline::State {
  StepRequest request(const Tensors& inputs, const Tensors& targets, bool trains) const;
  PipelineStep run(StepRequest request);
  std::vector<std::vector<int64_t>> agree_on_call(std::vector<int64_t> words,
                                                  const std::optional<RankFailure>& failure);
  void agree_on_step(StepRequest& request, StepOrder& order);
  void prepare(StepRequest& request, StepOrder& order);
  std::optional<RankFailure> carry_out(StepRequest& request,
                                       StepOrder& order,
                                       std::optional<StageAverages>& averages,
                                       PipelineStep& made);
  void conclude(const std::optional<RankFailure>& failure, bool trains, PipelineStep& made);
  void drop_step();

  PipelineLoss loss;
  DistributedPipelineOptions options;
  RankModel model;
  int64_t steps = 0;
  bool holds_letters = false;
  std::vector<Tensors> outputs;    // of forward(), by micro-batch
  std::optional<RankStall> stall;  // of the step in hand
};

/// A batch, cut; what is wrong with it is for all ranks to hear.
StepRequest DistributedPipeline::State::request(const Tensors& inputs,
                                                const Tensors& targets,
                                                bool trains) const {
  StepRequest made;
  made.trains = trains;
  made.has_targets = trains && !targets.empty();
  try {
    const bool gives_targets = model.is_last() && trains && !targets.empty();
    if (model.is_first()) {
      made.batches = cut_batch(inputs, gives_targets ? targets : Tensors(), options.micro_batches);
    } else if (gives_targets) {
      made.batches = cut_batch(targets, {}, options.micro_batches);
      for (MicroBatch& batch : made.batches) std::swap(batch.inputs, batch.targets);
    }
    if (!made.batches.empty()) {
      made.rows = 0;
      for (const MicroBatch& batch : made.batches) made.rows += static_cast<int64_t>(batch.count);
    }
  } catch (...) {
    made.failure = failure_now();
  }
  return made;
}

/// All ranks hear which call it is.
std::vector<std::vector<int64_t>> DistributedPipeline::State::agree_on_call(
    std::vector<int64_t> words, const std::optional<RankFailure>& failure) {
  words[kPipeline] = model.ranks.world_rank(0);
  words[kStep] = steps;
  const auto& everyone = model.groups.everyone;
  auto all = agree(everyone, "the step was not begun", words, failure, {}, options.stall_timeout);
  common_word(all, kStep, -1, "number of calls");
  common_word(all, kCall, -1, "call: 0 is forward(), 1 step(), 2 gather_model()");
  return all;
}

/// All ranks hear what the step is; what is wrong is wrong on all.
void DistributedPipeline::State::agree_on_step(StepRequest& request, StepOrder& order) {
  std::vector<int64_t> words(kWords);
  words[kCall] = request.trains ? kTrain : kForward;
  words[kMicroBatches] = std::ssize(request.batches);
  words[kRows] = request.rows;
  words[kScale] = std::bit_cast<int64_t>(request.scale);
  words[kTargets] = request.has_targets;
  const auto all = agree_on_call(std::move(words), request.failure);
  int64_t rows = -1, micro_batches = 0;
  const int64_t last = model.placement.rank_of(model.placement.stages() - 1);
  for (const auto& theirs : by_pipeline(all)) {
    common_word(theirs, kScale, -1, "scale");
    const int64_t their_rows = common_word(theirs, kRows, -1, "rows");
    const int64_t parts = common_word(theirs, kMicroBatches, 0, "number of micro-batches");
    if (parts == 0)
      throw usage_error({.refused = "a step without micro-batches",
                         .rule = "the first stage's rank gives one at least"});
    for (size_t rank = 0; rank < theirs.size(); ++rank)
      if (theirs[rank][kTargets] != 0 && theirs[static_cast<size_t>(last)][kTargets] == 0)
        throw usage_error({.refused = "the targets of a step",
                           .rule = concat("rank ", last, ", which has the last stage, gives them"),
                           .value = concat("they were given on rank ", rank)});
    if (theirs[0][kPipeline] != model.ranks.world_rank(0)) continue;
    rows = their_rows;
    micro_batches = parts;
  }
  order.lists = model.lists->of(micro_batches);
  if (!request.trains) order.lists = forward_part(std::move(order.lists));
  if (request.batches.empty()) {  // of a rank in the middle, or of targets that the loss needs not
    request.batches.resize(static_cast<size_t>(micro_batches));
    const auto counts = rows < 0 ? std::vector<int64_t>(static_cast<size_t>(micro_batches), 1)
                                 : rows_of_micro_batches(rows, micro_batches);
    for (size_t i = 0; i < counts.size(); ++i)
      request.batches[i].count = static_cast<double>(counts[i]);
  }
}

/// What may fail on this rank alone.
void DistributedPipeline::State::prepare(StepRequest& request, StepOrder& order) {
  Tensors given;
  for (const MicroBatch& batch : request.batches)
    for (const Tensors* tensors : {&batch.inputs, &batch.targets})
      given.insert(given.end(), tensors->begin(), tensors->end());
  order.ready = tensor::StreamMark::of_current(tensor::stream_devices(given));
  order.scale = request.scale;
  order.synchronize = options.synchronizes;
  order.holds_letters = request.trains && holds_letters;
  order.keeps_outputs = options.keeps_outputs || !request.trains;
  if (request.trains) {
    order.loss = loss;
    order.weights = model.is_last() ? weights_of(request.batches, options.reduction)
                                    : std::vector<double>(request.batches.size(), 1);
  }
  order.batches = std::move(request.batches);
}

std::optional<RankFailure> DistributedPipeline::State::carry_out(
    StepRequest& request,
    StepOrder& order,
    std::optional<StageAverages>& averages,
    PipelineStep& made) {
  GroupCarrier carrier(model.post, model.placement);
  TiedLetters letters = model.tied_letters();
  std::optional<RankStep> step;
  try {
    letters.copy_values();
    prepare(request, order);
    if (averages) order.average = [&](int64_t stage) { averages->post(stage); };
    std::map<int64_t, Stage*> here;
    for (const int64_t stage : model.mine) here[stage] = &model.stage(stage);
    step.emplace(order, model.ranks.rank(), std::move(here));
    const distributed::RankActivity work(model.groups.all(), [&] { return step->work(); });
    step->run(carrier);
    stall = stall_in(step->spans(), options.timeout);
    if (averages) averages->wait();
    if (request.trains) letters.add_gradients();
    for (const at::Tensor& each : step->losses())
      if (each.defined()) made.loss = made.loss.defined() ? made.loss + each : each;
    if (order.keeps_outputs && model.is_last()) {
      if (request.trains) {
        made.outputs = put_together(step->outputs());
      } else {
        outputs = step->outputs();
      }
    }
    made.timeline.ranks.resize(static_cast<size_t>(model.ranks.world_size()));
    made.timeline.ranks[static_cast<size_t>(model.ranks.rank())] = step->spans();
    return std::nullopt;
  } catch (...) {
    const RankFailure failure = failure_now(carrier.was_let_down() || letters.was_let_down() ||
                                            (averages && averages->was_let_down()));
    if (step) stall = stall_in(step->spans(), options.timeout);
    const auto& list = order.lists.ranks[static_cast<size_t>(model.ranks.rank())];
    // What others wait for, in the order in which it would have come.
    carrier.give_up(list, static_cast<size_t>(step ? step->position() + 1 : 0));
    if (request.trains) letters.give_up();
    return failure;
  }
}

/// Nobody returns before all know that all have done their part.
void DistributedPipeline::State::conclude(const std::optional<RankFailure>& failure,
                                          bool trains,
                                          PipelineStep& made) {
  enum { kDtype, kLoss };
  std::vector<int64_t> words{-1, 0};
  std::optional<RankFailure> found = failure;
  try {
    if (!found && made.loss.defined()) {
      words[kDtype] = static_cast<int64_t>(made.loss.scalar_type());
      words[kLoss] = std::bit_cast<int64_t>(made.loss.item<double>());
    }
  } catch (...) {  // a device that failed behind our back
    found = failure_now();
  }
  const distributed::ProcessGroup& everyone = trains ? model.groups.everyone : model.ranks;
  std::vector<std::vector<int64_t>> all;
  try {
    const auto mine = std::exchange(stall, {});
    all = agree(everyone, "the step was given up", words, found, mine, options.stall_timeout);
  } catch (...) {
    // Whoever is missing there is the cause where this rank has none of its own.
    if (found && !found->let_down) std::rethrow_exception(found->error);
    throw;
  }
  if (!trains || model.is_last()) return;
  const int last_rank = static_cast<int>(model.placement.rank_of(model.placement.stages() - 1));
  for (int rank = 0; rank < everyone.world_size(); ++rank) {
    const std::vector<int64_t>& theirs = all[static_cast<size_t>(rank)];
    if (everyone.world_rank(rank) == model.ranks.world_rank(last_rank) && theirs[kDtype] >= 0)
      made.loss = at::scalar_tensor(std::bit_cast<double>(theirs[kLoss]),
                                    static_cast<at::ScalarType>(theirs[kDtype]));
  }
}

void DistributedPipeline::State::drop_step() {
  if (options.before_drop) options.before_drop();
  model.drop_gradients();
}

PipelineStep DistributedPipeline::State::run(StepRequest request) {
  const bool trains = request.trains;
  if (!model.post.is_whole()) {  // the others hear it, too
    try {
      throw environment_error({.refused = "a step of a pipeline",
                               .rule = "no message of an earlier step was cut short",
                               .hint = "make the group and the pipeline anew"});
    } catch (...) {
      request.failure = failure_now();
    }
  }
  model.post.begin(++steps);
  StepOrder order;
  std::optional<StageAverages> averages;
  if (trains && model.groups.replicas) averages.emplace(*model.groups.replicas, model.trained());
  PipelineStep made;
  try {
    agree_on_step(request, order);
  } catch (...) {  // on all ranks: none goes on
    if (trains) drop_step();
    throw;
  }
  const std::optional<RankFailure> failure = carry_out(request, order, averages, made);
  if (failure && averages) {
    try {
      averages->give_up();
    } catch (const std::exception&) {  // conclude() says what happened
    }
  }
  try {
    conclude(failure, trains, made);
  } catch (...) {
    if (trains) drop_step();
    throw;
  }
  auto& spans = made.timeline.ranks;
  if (trains && options.gathers_timeline)
    spans = gather_spans(
        model.ranks, spans[static_cast<size_t>(model.ranks.rank())], options.stall_timeout);
  return made;
}

DistributedPipeline::DistributedPipeline(std::vector<Block> blocks,
                                         const distributed::ProcessGroup& ranks,
                                         PipelineLoss loss,
                                         DistributedPipelineOptions options)
    : state_(new State{.loss = std::move(loss),
                       .options = options,
                       .model = RankModel(std::move(blocks), PipelineGroups(ranks), options)}) {}

DistributedPipeline::DistributedPipeline(std::vector<Block> blocks,
                                         const distributed::DeviceMesh& mesh,
                                         PipelineLoss loss,
                                         DistributedPipelineOptions options)
    : state_(new State{
          .loss = std::move(loss),
          .options = options,
          .model = RankModel(std::move(blocks), PipelineGroups(mesh, options), options)}) {}

DistributedPipeline::~DistributedPipeline() = default;
DistributedPipeline::DistributedPipeline(DistributedPipeline&&) noexcept = default;
DistributedPipeline& DistributedPipeline::operator=(DistributedPipeline&&) noexcept = default;

PipelineStep DistributedPipeline::step(const Tensors& inputs,
                                       const Tensors& targets,
                                       double scale) {
  StepRequest request = state_->request(inputs, targets, true);
  request.scale = scale;
  try {
    check_training(state_->loss, request.scale, request.batches);
  } catch (...) {
    if (!request.failure) request.failure = failure_now();
  }
  return state_->run(std::move(request));
}

PipelineStep DistributedPipeline::step(std::vector<MicroBatch> batches, double scale) {
  return step([&] { return std::move(batches); }, scale);
}

PipelineStep DistributedPipeline::step(const std::function<std::vector<MicroBatch>()>& make,
                                       double scale) {
  StepRequest request;
  request.scale = scale;
  try {
    request.batches = make();
    check_training(state_->loss, request.scale, request.batches);
  } catch (...) {
    request.failure = failure_now();
  }
  return state_->run(std::move(request));
}

Tensors DistributedPipeline::forward(const Tensors& inputs) {
  const c10::InferenceMode no_inference(false);  // backends write in threads of their own
  const at::NoGradGuard no_grad;
  state_->run(state_->request(inputs, {}, false));
  return put_together(std::exchange(state_->outputs, {}));
}

std::vector<Tensors> DistributedPipeline::forward(
    const std::function<std::vector<MicroBatch>()>& make) {
  const c10::InferenceMode no_inference(false);
  const at::NoGradGuard no_grad;
  StepRequest request{.trains = false};
  try {
    request.batches = make();
  } catch (...) {
    request.failure = failure_now();
  }
  state_->run(std::move(request));
  return std::exchange(state_->outputs, {});
}

void DistributedPipeline::gather_model(int root) {
  State& state = *state_;
  state.model.post.begin(++state.steps);
  std::optional<RankFailure> failure;
  try {
    if (root < 0 || root >= state.model.ranks.world_size())
      throw usage_error(
          {.refused = "the root of gather_model()",
           .rule = concat("it is one of the pipeline's ", state.model.ranks.world_size(), " ranks"),
           .value = concat(root)});
  } catch (...) {
    failure = failure_now();
  }
  std::vector<int64_t> words(kWords);
  words[kCall] = kGather;
  words[kRoot] = root;
  common_word(state.agree_on_call(std::move(words), failure), kRoot, -1, "root");
  state.model.gather(root);
}

double DistributedPipeline::clip_grad_norm(double max_norm) {
  return state_->model.clip_grad_norm(max_norm);
}

bool DistributedPipeline::has_first_stage() const { return state_->model.is_first(); }
bool DistributedPipeline::has_last_stage() const { return state_->model.is_last(); }
std::vector<int64_t> DistributedPipeline::stages() const { return state_->model.mine; }
c10::Device DistributedPipeline::device() const { return state_->model.device; }

NamedTensors DistributedPipeline::named_parameters() const {
  return state_->model.named_parameters();
}

std::vector<at::Tensor> DistributedPipeline::parameters() const {
  return tensors_of(named_parameters());
}

NamedTensors DistributedPipeline::named_buffers() const { return state_->model.named_buffers(); }

void DistributedPipeline::train(bool on) {
  for (const Block& block : state_->model.blocks)
    for (const auto& module : block.modules) module->train(on);
}

void DistributedPipeline::hold_letters(bool on) { state_->holds_letters = on; }

void DistributedPipeline::zero_grad() { state_->model.drop_gradients(); }

}  // namespace muster::parallel
