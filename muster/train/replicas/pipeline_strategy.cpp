#include "muster/train/replicas/pipeline_strategy.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>

#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/distributed/device_mesh.h"
#include "muster/parallel/pipeline_ranks/distributed_pipeline.h"
#include "muster/pipeline/draw/gantt_svg.h"
#include "muster/pipeline/schedule/schedule.h"
#include "muster/train/plan/fit_plan.h"
#include "muster/train/replicas/chain_calls.h"
#include "muster/train/replicas/gather_named.h"

namespace muster::train::detail {
namespace {

using parallel::MicroBatch;
using parallel::Tensors;

constexpr const char* kData = "data";
constexpr const char* kStages = "pipeline";
constexpr int64_t kDrawnStep = 3;  // of the process: the first ones make what later ones reuse

/// Rows of a batch as batches of their own. Throws a usage error for a tensor that has no row for
/// each sample.
std::vector<data::Batch> cut(const data::Batch& batch, int64_t parts, std::string_view owner) {
  std::vector<data::Batch> pieces;
  int64_t begin = 0;
  for (const int64_t rows : parallel::rows_of_micro_batches(batch.size(), parts)) {
    data::Batch& piece = pieces.emplace_back();
    piece.indices.assign(batch.indices.begin() + begin, batch.indices.begin() + begin + rows);
    for (const auto& [name, tensor] : batch.tensors) {
      const bool has_rows = tensor.defined() && tensor.dim() > 0;
      if (has_rows && tensor.size(0) != batch.size()) {
        throw usage_error({.refused = concat(owner, ": \"", name, "\" of a batch"),
                           .rule = "it has a row for each sample, so that it can be cut",
                           .value = concat(tensor.size(0), " rows of ", batch.size(), " samples"),
                           .hint = "take --strategy ddp or fsdp"});
      }
      piece.tensors.emplace_back(name, has_rows ? tensor.narrow(0, begin, rows) : tensor);
    }
    begin += rows;
  }
  return pieces;
}

/// A micro-batch's number on its way to the loss: a shape is known without looking into memory, so
/// that no device is waited for.
Tensors number_of(size_t piece) { return {at::empty({static_cast<int64_t>(piece), 0})}; }
size_t number_from(const Tensors& targets) { return static_cast<size_t>(targets.at(0).size(0)); }

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
        cut_(cut_module(blocks_of(request, owner), request, options_, ranks, owner)),
        calls_(names_of(cut_.blocks)) {
    const auto loss = [this](const Tensors& outputs, const Tensors& targets) {
      return loss_of(outputs, number_from(targets));
    };
    pipe_.emplace(cut_.blocks,
                  mesh_,
                  loss,
                  parallel::DistributedPipelineOptions{.schedule = options_.schedule,
                                                       .micro_batches = options_.micro_batches,
                                                       .first_block = cut_.first_block,
                                                       .checkpointed = cut_.checkpointed,
                                                       .pipeline_axis = kStages,
                                                       .data_axis = kData,
                                                       .synchronizes = !options_.gantt.empty(),
                                                       .gathers_timeline = !options_.gantt.empty(),
                                                       .device = device_});
    find_own();
    move_others(c10::kCPU);
    optimizer_ = make_optimizer(request.plan, request.rules, own_parameters());
  }

  bool trains_in_pieces() const override { return true; }
  std::vector<WeighedResult> forward_backward(const BatchInPieces& batch) override;
  optim::Optimizer& optimizer() override { return *optimizer_; }
  at::Tensor clip_gradients(double max_norm) override {
    return at::scalar_tensor(pipe_->clip_grad_norm(max_norm), at::kDouble);
  }

  tensor::NamedTensorList optimizer_state() override;
  void load_optimizer_state(const tensor::NamedTensorList& state) override;

  bool shards_weights() const override { return true; }
  std::shared_ptr<void> whole_weights() override;
  std::optional<StepResult> evaluate(const std::function<StepResult()>& pass) override {
    Tensors outputs = infer(pass);
    if (!pipe_->has_last_stage()) return std::nullopt;
    return calls_.with_outputs(std::move(outputs), pass);
  }
  void stand_aside(const std::function<StepResult()>& pass) override { infer(pass); }
  void share_buffers() override;
  tensor::NamedTensorList whole_state(tensor::NamedTensorList state) override {
    pipe_->gather_model(0);  // into the module, whose tensors these are
    return state;
  }
  tensor::NamedTensorList own_state(tensor::NamedTensorList state) override {
    std::erase_if(state, [this](const auto& entry) { return !is_own(entry.second); });
    return state;
  }

  Json record() const override { return record_of(cut_, options_, mesh_.size(kStages)); }
  std::string line() const override;

 private:
  at::Tensor loss_of(const Tensors& outputs, size_t piece);
  void draw(const parallel::PipelineStep& step) const;
  Tensors infer(const std::function<StepResult()>& pass) {
    return pipe_->forward(pipe_->has_first_stage() ? calls_.inputs_of(pass) : Tensors());
  }
  void find_own();
  bool is_own(const at::Tensor& tensor) const {
    return own_.contains(tensor.storage().unsafeGetStorageImpl());
  }
  tensor::NamedTensorList own_parameters() const;
  void move_others(c10::Device device);

  PipelineStrategyOptions options_;
  std::string owner_;
  c10::Device device_;
  distributed::DeviceMesh mesh_;
  PipelineCut cut_;
  ChainCalls calls_;
  std::optional<parallel::DistributedPipeline> pipe_;
  std::set<const void*> own_;  // memory of parameters and buffers of this rank's stages
  std::unique_ptr<optim::Optimizer> optimizer_;
  // Of the batch in hand.
  std::vector<data::Batch> pieces_;
  std::vector<double> weights_;
  const BatchInPieces* batch_ = nullptr;
  int64_t steps_ = 0;
  std::vector<WeighedResult> results_;
};

void PipelineStrategy::find_own() {
  for (const auto& tensors : {pipe_->named_parameters(), pipe_->named_buffers()}) {
    for (const auto& [name, tensor] : tensors) own_.insert(tensor.storage().unsafeGetStorageImpl());
  }
}

/// By their names in the module, under which any strategy saves their state.
tensor::NamedTensorList PipelineStrategy::own_parameters() const {
  tensor::NamedTensorList own;
  for (const auto& item : module()->named_parameters()) {
    if (is_own(item.value())) own.emplace_back(item.key(), item.value());
  }
  return own;
}

/// The units of other ranks' stages.
void PipelineStrategy::move_others(c10::Device device) {
  if (device_.is_cpu()) return;
  const std::vector<int64_t> own = pipe_->stages();
  for (size_t block = 0; block < cut_.blocks.size(); ++block) {
    if (std::ranges::find(own, stage_of(block, cut_.first_block)) == own.end())
      parallel::move_to(cut_.blocks[block], device);
  }
}

std::vector<WeighedResult> PipelineStrategy::forward_backward(const BatchInPieces& batch) {
  batch_ = &batch;
  pieces_ = cut(batch.batch, options_.micro_batches, owner_);
  results_.clear();
  weights_.clear();
  std::vector<MicroBatch> micro_batches(pieces_.size());
  for (size_t i = 0; i < pieces_.size(); ++i) {
    MicroBatch& micro_batch = micro_batches[i];
    if (pipe_->has_first_stage())
      micro_batch.inputs = calls_.inputs_of([&] { return batch.pass(pieces_[i]); });
    micro_batch.targets = number_of(i);
    micro_batch.count = batch.weight(pieces_[i]);
    weights_.push_back(micro_batch.count);
  }
  const parallel::PipelineStep step = pipe_->step(std::move(micro_batches), batch.scale);
  if (++steps_ == kDrawnStep && group().rank() == 0 && !options_.gantt.empty()) draw(step);
  pieces_.clear();
  batch_ = nullptr;
  return std::exchange(results_, {});
}

void PipelineStrategy::draw(const parallel::PipelineStep& step) const {
  const std::string title = concat(options_.schedule,
                                   ", ",
                                   cut_.first_block.size(),
                                   " stages on ",
                                   mesh_.size(kStages),
                                   " ranks: step ",
                                   kDrawnStep,
                                   ", bubble ",
                                   fixed(100 * step.timeline.bubble(), 1),
                                   " %");
  write_file_atomic(options_.gantt, pipeline::gantt_svg(step.timeline, {.title = title}));
}

/// On the last stage's rank.
at::Tensor PipelineStrategy::loss_of(const Tensors& outputs, size_t piece) {
  const data::Batch& rows = pieces_.at(piece);
  StepResult result = calls_.with_outputs(outputs, [&] { return batch_->pass(rows); });
  at::Tensor loss = result.loss;
  result.loss = loss.detach();
  results_.push_back({std::move(result), weights_[piece]});
  return loss;
}

tensor::NamedTensorList PipelineStrategy::optimizer_state() {
  if (mesh_.coordinate(kData) != 0) return {};
  const tensor::NamedTensorList all = gather_named(mesh_.group(kStages), optimizer().state());
  // In the order that one rank's would have: by kind, then as the module has its parameters.
  std::vector<std::string> kinds;
  std::map<std::string_view, at::Tensor> by_name;
  for (const auto& [name, tensor] : all) {
    by_name[name] = tensor;
    const std::string kind = name.substr(0, name.find('/') + 1);
    if (std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(kind);
  }
  tensor::NamedTensorList state;
  for (const std::string& kind : kinds) {
    for (const auto& item : module()->named_parameters()) {
      const auto found = by_name.find(kind + item.key());
      if (found != by_name.end()) state.emplace_back(found->first, found->second);
    }
  }
  return state;
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

std::shared_ptr<void> PipelineStrategy::whole_weights() {
  move_others(device_);
  for (int rank = 0; rank < mesh_.size(kStages); ++rank) pipe_->gather_model(rank);
  return {this, [](PipelineStrategy* self) { self->move_others(c10::kCPU); }};
}

void PipelineStrategy::share_buffers() {
  const distributed::ProcessGroup& replicas = mesh_.group(kData);
  if (replicas.world_size() == 1) return;
  for (const auto& [name, buffer] : pipe_->named_buffers()) replicas.broadcast(buffer);
}

std::string PipelineStrategy::line() const {
  std::vector<std::string> stages;
  for (const int64_t first : cut_.first_block)
    stages.push_back(cut_.blocks.at(static_cast<size_t>(first)).name);
  return concat(
      "pipeline: ",
      options_.schedule,
      " of ",
      options_.micro_batches,
      " micro-batches, ",
      stages.size(),
      stages.size() == 1 ? " stage on " : " stages on ",
      mesh_.size(kStages),
      mesh_.size(kStages) == 1 ? " rank" : " ranks",
      mesh_.size(kData) > 1 ? concat(", ", mesh_.size(kData), " replicas") : "",
      "; they begin with ",
      join(stages, ", "),
      cut_.is_measured
          ? concat(" (measured; the same again: split=", text_of_split(cut_.first_block), ")")
          : "");
}

}  // namespace

PipelineStrategyOptions pipeline_options(const ParamValues& params, std::string_view owner) {
  auto options = resolve_params<PipelineStrategyOptions>(kPipelineParams, params, owner);
  pipeline::schedules().at(parse_spec(options.schedule).name);
  constexpr int64_t kMost = 1 << 16;
  if (options.micro_batches < 1 || options.micro_batches > kMost) {
    throw usage_error({.refused = concat(owner, ": micro_batches"),
                       .rule = concat("from 1 to ", kMost),
                       .value = std::to_string(options.micro_batches)});
  }
  if (options.split != kMeasuredSplit) split_from(options.split, owner);
  const std::filesystem::path folder = std::filesystem::path(options.gantt).parent_path();
  if (!options.gantt.empty() && !folder.empty() && !std::filesystem::is_directory(folder)) {
    throw usage_error({.refused = concat(owner, ": gantt"),
                       .rule = "the file's folder is there",
                       .value = options.gantt});
  }
  return options;
}

int64_t ranks_of_pipeline(int64_t world_size,
                          const PipelineStrategyOptions& options,
                          std::string_view owner) {
  const int64_t ranks = options.ranks == 0 ? world_size : options.ranks;
  if (ranks >= 1 && ranks <= world_size && world_size % ranks == 0) return ranks;
  throw usage_error({.refused = concat(owner, ": ranks"),
                     .rule = concat("the ", world_size, " ranks are whole pipelines"),
                     .value = std::to_string(options.ranks),
                     .hint = "take 0: one pipeline over all of them"});
}

std::unique_ptr<Strategy> make_pipeline(StrategyRequest request,
                                        const ParamValues& params,
                                        std::string_view owner) {
  PipelineStrategyOptions options = pipeline_options(params, owner);
  const int64_t ranks = ranks_of_pipeline(request.group.world_size(), options, owner);
  return std::make_unique<PipelineStrategy>(std::move(request), std::move(options), ranks, owner);
}

}  // namespace muster::train::detail
