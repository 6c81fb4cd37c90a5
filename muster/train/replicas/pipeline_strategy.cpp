#include "muster/train/replicas/pipeline_strategy.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <list>
#include <optional>
#include <set>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/scalar_tensor.h>

#include "muster/base/counted.h"
#include "muster/base/file.h"
#include "muster/base/path_names.h"
#include "muster/base/text.h"
#include "muster/distributed/device_mesh.h"
#include "muster/distributed/timeout_scope.h"
#include "muster/parallel/pipeline_ranks/distributed_pipeline.h"
#include "muster/pipeline/draw/gantt.h"
#include "muster/pipeline/schedule/schedule.h"
#include "muster/train/plan/fit_plan.h"
#include "muster/train/replicas/batch_pieces.h"
#include "muster/train/replicas/chain_calls.h"
#include "muster/train/replicas/first_rank.h"
#include "muster/train/replicas/gather_named.h"
#include "muster/train/replicas/step_memory.h"

namespace muster::train::detail {
namespace {

using parallel::MicroBatch;
using parallel::Tensors;

constexpr const char* kData = "data";
constexpr const char* kStages = "pipeline";
// Of the process: the first ones make what later ones reuse. A run that has fewer keeps its last.
constexpr int64_t kDrawnStep = 3;

/// A micro-batch's number on its way to the loss: a shape is known without looking into memory, so
/// that no device is waited for.
Tensors number_of(size_t piece) { return {at::empty({static_cast<int64_t>(piece), 0})}; }
size_t number_from(const Tensors& targets) { return static_cast<size_t>(targets.at(0).size(0)); }

/// The weights that rank 0 has become those of all, as under any strategy.
std::vector<parallel::Block> alike_blocks_of(const StrategyRequest& request,
                                             std::string_view owner) {
  std::vector<parallel::Block> blocks = blocks_of(*request.module, {request.generator}, owner);
  if (request.group.world_size() == 1) return blocks;
  for (const auto& tensors : {request.module->parameters(), request.module->buffers()}) {
    for (const at::Tensor& tensor : tensors) request.group.broadcast(tensor.detach());
  }
  return blocks;
}

constexpr std::string_view kGanttFolder = "folder of gantt";

std::filesystem::path gantt_folder(const PipelineStrategyOptions& options) {
  return std::filesystem::absolute(options.gantt).parent_path();
}

/// A replica on each row of ranks, a stage or several on each rank of it.
class PipelineStrategy final : public Strategy {
 public:
  PipelineStrategy(StrategyRequest request,
                   PipelineStrategyOptions options,
                   int64_t ranks,
                   std::string_view owner)
      : Strategy(request),
        options_(std::move(options)),
        owner_(owner),
        device_(request.device),
        mesh_(group(), {{kData, -1}, {kStages, ranks}}),
        cut_(cut_module(alike_blocks_of(request, owner), request, options_, ranks, owner)),
        calls_(names_of(cut_.blocks), request.generator),
        seed_(request.plan.options.seed),
        note_(request.note),
        memory_(device_, request.plan),
        measured_(measured_before(request.record, cut_, ranks)) {
    const auto loss = [this](const Tensors& outputs, const Tensors& targets) {
      return loss_of(outputs, number_from(targets));
    };
    const double message_timeout = options_.timeout > 0 ? options_.timeout : options_.stall_timeout;
    pipe_.emplace(
        cut_.blocks,
        mesh_,
        loss,
        parallel::DistributedPipelineOptions{.schedule = cut_.schedule,
                                             .micro_batches = cut_.micro_batches,
                                             .first_block = cut_.first_block,
                                             .checkpointed = cut_.checkpointed,
                                             .offloaded = cut_.offloaded,
                                             .pipeline_axis = kStages,
                                             .data_axis = kData,
                                             .synchronizes = !options_.gantt.empty(),
                                             .gathers_timeline = !options_.gantt.empty(),
                                             .device = device_,
                                             .timeout = timeout_of(message_timeout),
                                             .stall_timeout = timeout_of(options_.stall_timeout),
                                             .before_drop = [this] { note_drop(); }});
    if (!options_.gantt.empty()) {
      on_first_rank(group(), [&] { make_writable_folder(gantt_folder(options_), kGanttFolder); });
    }
    find_own();
    optimizer_ = make_optimizer(request.plan, request.rules, own_parameters());
    bound_waits();
  }

  bool trains_in_pieces() const override { return true; }
  std::vector<WeighedResult> forward_backward(const BatchToCut& batch) override;
  void take_most_memory() override {
    memory_.stop();
    pipe_->hold_letters();
  }
  std::vector<pipeline::Span> last_spans() const override { return spans_; }
  optim::Optimizer& optimizer() override { return *optimizer_; }
  at::Tensor clip_gradients(double max_norm) override {
    return at::scalar_tensor(pipe_->clip_grad_norm(max_norm), at::kDouble);
  }

  tensor::NamedTensorList optimizer_state() override;
  void load_optimizer_state(const tensor::NamedTensorList& state) override;

  bool shards_weights() const override { return true; }
  std::vector<WeighedResult> evaluate(const BatchToCut& batch) override;
  void stand_aside(const BatchToCut& batch) override { infer(batch); }
  std::vector<memory::OwnedMemory> dropped_memory() const override { return dropped_; }
  bool shares_buffers() override;
  int seeing_rank() const override { return seeing_rank_; }
  tensor::NamedTensorList whole_state(tensor::NamedTensorList state) override {
    pipe_->gather_model(0);  // into the module, whose tensors these are
    return state;
  }
  tensor::NamedTensorList own_state(tensor::NamedTensorList state) override {
    std::erase_if(state, [this](const auto& entry) { return !is_own(entry.second); });
    return state;
  }

  std::optional<LeastMemory> least_memory() const override { return cut_.least; }
  Json record() const override { return record_of(cut_, mesh_.size(kStages), measured_); }
  std::string line() const override;
  void settle_record() override;
  std::vector<std::string> end_lines() const override {
    return cut_.predicted.empty() ? std::vector<std::string>()
                                  : stage_lines(cut_.predicted, measured_);
  }

 private:
  at::Tensor loss_of(const Tensors& outputs, size_t piece);
  std::vector<MicroBatch> micro_batches_of(const BatchToCut& batch);
  std::vector<Tensors> infer(const BatchToCut& batch) {
    memory_.end_steps();
    return pipe_->forward([&] { return micro_batches_of(batch); });
  }
  StepResult result_of(Tensors outputs, size_t piece) const {
    return calls_.with_outputs(
        std::move(outputs), [&] { return batch_->pass(pieces_.at(piece)); }, seeds_.at(piece));
  }
  void draw(const parallel::PipelineStep& step) const;
  void check_other_buffers();
  void note_drop() noexcept;
  void find_own();
  void bound_waits();
  bool is_own(const at::Tensor& tensor) const {
    return own_.contains(tensor.storage().unsafeGetStorageImpl());
  }
  tensor::NamedTensorList own_parameters() const;

  PipelineStrategyOptions options_;
  std::string owner_;
  c10::Device device_;
  distributed::DeviceMesh mesh_;
  PipelineCut cut_;
  ChainCalls calls_;
  int64_t seed_;  // of the run
  std::function<void(const std::string&)> note_;
  std::optional<parallel::DistributedPipeline> pipe_;
  int seeing_rank_ = 0;
  std::set<const void*> own_;  // memory of parameters and buffers of this rank's stages
  std::unique_ptr<optim::Optimizer> optimizer_;
  tensor::NamedTensorList other_buffers_;  // which no unit has, as they were
  int64_t steps_ = 0;
  // Of the batch in hand.
  const BatchToCut* batch_ = nullptr;
  std::vector<data::Batch> pieces_;
  std::vector<double> weights_;
  std::vector<uint64_t> seeds_;
  std::vector<WeighedResult> results_;
  std::vector<pipeline::Span> spans_;  // of the last step, this rank's
  StageClock clock_;
  StepMemory memory_;
  std::vector<memory::OwnedMemory> dropped_;  // the gradients, by a step that failed
  std::vector<StageAccount> measured_;        // by stage
  std::list<distributed::TimeoutScope> waits_;
};

void PipelineStrategy::find_own() {
  for (const auto& tensors : {pipe_->named_parameters(), pipe_->named_buffers()}) {
    for (const auto& [name, tensor] : tensors) own_.insert(tensor.storage().unsafeGetStorageImpl());
  }
  std::set<const void*> in_units;
  for (const parallel::Block& block : cut_.blocks)
    for (const auto& [name, buffer] : parallel::buffers_of(block))
      in_units.insert(buffer.unsafeGetTensorImpl());
  for (const auto& item : module()->named_buffers())
    if (!in_units.contains(item.value().unsafeGetTensorImpl()))
      other_buffers_.emplace_back(item.key(), item.value().clone());
  // The first replica's last stage.
  const auto own =
      static_cast<int64_t>(pipe_->has_last_stage() ? mesh_.coordinate(kStages) + 1 : 0);
  const at::Tensor last = at::full({1}, own, at::kLong).to(group().device());
  if (group().world_size() > 1) group().all_reduce(last, c10d::ReduceOp::MAX);
  seeing_rank_ = static_cast<int>(last.item<int64_t>() - 1);
}

/// From now on a rank waits for others no longer than stall_timeout, wherever it is: whoever stands still
/// between two steps, or in an evaluation, is missed there. What was measured before may take longer.
void PipelineStrategy::bound_waits() {
  if (options_.stall_timeout == 0) return;
  for (const auto& each : {group(), mesh_.group(kStages), mesh_.group(kData)})
    waits_.emplace_back(each, timeout_of(options_.stall_timeout));
}

/// By their names in the module, under which any strategy saves their state.
tensor::NamedTensorList PipelineStrategy::own_parameters() const {
  tensor::NamedTensorList own;
  for (const auto& item : module()->named_parameters()) {
    if (is_own(item.value())) own.emplace_back(item.key(), item.value());
  }
  return own;
}

/// What this rank gives to a step; what the loss needs besides stays here.
std::vector<MicroBatch> PipelineStrategy::micro_batches_of(const BatchToCut& batch) {
  batch_ = &batch;
  // A batch of an evaluation may have more samples than one of training.
  const int64_t pieces = std::max(cut_.micro_batches, cut_.asked_micro_batches);
  pieces_ = cut_by_samples(batch.batch, pieces, owner_);
  weights_.clear();
  seeds_.clear();
  std::vector<MicroBatch> micro_batches(pieces_.size());
  double all = 0;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    seeds_.push_back(seed_of_piece(pieces_[i], batch.step, seed_));
    weights_.push_back(batch.weight(pieces_[i]));
    all += weights_[i];
    if (pipe_->has_first_stage())
      micro_batches[i].inputs = calls_.inputs_of([&] { return batch.pass(pieces_[i]); }, seeds_[i]);
    micro_batches[i].targets = number_of(i);
  }
  // A batch that weighs nothing takes part all the same, and its scale is 0.
  for (size_t i = 0; i < pieces_.size(); ++i) micro_batches[i].count = all > 0 ? weights_[i] : 1;
  return micro_batches;
}

std::vector<WeighedResult> PipelineStrategy::forward_backward(const BatchToCut& batch) {
  results_.clear();
  dropped_.clear();
  memory_.begin_step();
  const auto start = std::chrono::steady_clock::now();
  const parallel::PipelineStep step =
      pipe_->step([&] { return micro_batches_of(batch); }, batch.scale);
  spans_ = step.timeline.ranks.at(static_cast<size_t>(mesh_.coordinate(kStages)));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  // Of a device, spans are true where the steps wait for it.
  if (device_.is_cpu() || !options_.gantt.empty()) clock_.add(spans_, took.count());
  if (steps_ == 0) check_other_buffers();
  if (++steps_ <= kDrawnStep && group().rank() == 0 && !options_.gantt.empty()) draw(step);
  return std::exchange(results_, {});
}

std::vector<WeighedResult> PipelineStrategy::evaluate(const BatchToCut& batch) {
  std::vector<Tensors> outputs = infer(batch);
  std::vector<WeighedResult> results;
  for (size_t i = 0; i < outputs.size() && pipe_->has_last_stage(); ++i)
    results.push_back({result_of(std::move(outputs[i]), i), weights_[i]});
  return results;
}

void PipelineStrategy::note_drop() noexcept {
  try {
    dropped_ = gradient_memory(*module());
  } catch (...) {  // the step has an error to tell already
  }
}

/// A buffer of no unit is on no rank more than on another: one that changes would be lost.
void PipelineStrategy::check_other_buffers() {
  for (const auto& [name, before] : other_buffers_) {
    const at::Tensor* now = module()->named_buffers().find(name);
    if (now == nullptr || at::equal(*now, before)) continue;
    throw usage_error({.refused = owner_,
                       .rule = "what a step changes belongs to one of the model's units",
                       .value = concat("the buffer ", name),
                       .hint = "name its module in a unit of chain()"});
  }
}

void PipelineStrategy::draw(const parallel::PipelineStep& step) const {
  const std::string title = concat(cut_.schedule,
                                   ", ",
                                   counted(std::ssize(cut_.first_block), "stage"),
                                   " on ",
                                   counted(mesh_.size(kStages), "rank"),
                                   ": step ",
                                   steps_,
                                   ", bubble ",
                                   fixed(100 * step.timeline.bubble(), 1),
                                   " %");
  try {
    write_file_atomic(options_.gantt,
                      pipeline::gantt_file(step.timeline, {.title = title}, options_.gantt));
  } catch (const Error& error) {  // a picture: the run goes on
    if (note_) note_(concat("no drawing of step ", steps_, ": ", error.what()));
  }
}

/// On the last stage's rank.
at::Tensor PipelineStrategy::loss_of(const Tensors& outputs, size_t piece) {
  StepResult result = result_of(outputs, piece);
  at::Tensor loss = result.loss;
  result.loss = loss.detach();
  results_.push_back({std::move(result), weights_.at(piece)});
  return loss;
}

tensor::NamedTensorList PipelineStrategy::optimizer_state() {
  if (mesh_.coordinate(kData) != 0) return {};
  return in_order_of(*module(), gather_named(mesh_.group(kStages), optimizer().state()));
}

void PipelineStrategy::load_optimizer_state(const tensor::NamedTensorList& state) {
  std::set<std::string, std::less<>> others;
  for (const auto& item : module()->named_parameters()) {
    if (!is_own(item.value())) others.insert(item.key());
  }
  tensor::NamedTensorList own;
  for (const auto& entry : state) {
    if (!others.contains(entry.first.substr(entry.first.find('/') + 1))) own.push_back(entry);
  }
  optimizer().load_state({own, {}});
}

bool PipelineStrategy::shares_buffers() {
  const distributed::ProcessGroup& replicas = mesh_.group(kData);
  if (replicas.world_size() == 1) return true;
  for (const auto& [name, buffer] : pipe_->named_buffers()) replicas.broadcast(buffer);
  return true;
}

void PipelineStrategy::settle_record() {
  clock_.hold(pipe_->stages(), memory_.most());
  const auto told = group().all_gather_text(json_text(clock_.told()));
  take_measured(StageClock::merged(told, cut_.first_block.size()), measured_);
}

std::string PipelineStrategy::line() const {
  std::vector<std::string> stages;
  for (const int64_t first : cut_.first_block)
    stages.push_back(cut_.blocks.at(static_cast<size_t>(first)).name);
  return concat("pipeline: ",
                schedule_text(cut_),
                ", ",
                counted(std::ssize(stages), "stage"),
                " on ",
                counted(mesh_.size(kStages), "rank"),
                mesh_.size(kData) > 1 ? concat(", ", mesh_.size(kData), " replicas") : "",
                stages.size() == 1 ? "; it begins with " : "; they begin with ",
                join(stages, ", "),
                choice_text(cut_, options_),
                room_text(cut_),
                treatment_text(cut_));
}

}  // namespace

void check_pipeline(torch::nn::Module& module,
                    const FitPlan& plan,
                    const ParamValues& params,
                    const Json& record,
                    std::string_view owner) {
  const PipelineStrategyOptions options = pipeline_options(params, owner);
  check_cut(blocks_of(module, {}, owner), options, plan, record, owner);
  if (!options.gantt.empty()) require_writable_folder(gantt_folder(options), kGanttFolder);
}

std::unique_ptr<Strategy> make_pipeline(StrategyRequest request,
                                        const ParamValues& params,
                                        std::string_view owner) {
  PipelineStrategyOptions options = pipeline_options(params, owner);
  const int64_t ranks = ranks_of_pipeline(request.group.world_size(), options, owner);
  return std::make_unique<PipelineStrategy>(std::move(request), std::move(options), ranks, owner);
}

}  // namespace muster::train::detail
