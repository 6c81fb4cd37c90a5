#include "muster/train/replicas/pipeline_cut.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "muster/base/counted.h"
#include "muster/base/text.h"
#include "muster/parallel/activations/block_choice.h"
#include "muster/parallel/activations/blocks.h"
#include "muster/pipeline/schedule/schedule.h"
#include "muster/tensor/device/device_memory.h"
#include "muster/train/plan/fit_plan.h"
#include "muster/train/replicas/batch_pieces.h"
#include "muster/train/replicas/first_rank.h"
#include "muster/train/replicas/pipeline_measurements.h"

namespace muster::train::detail {
namespace {

using parallel::Block;
using parallel::BlockBytes;

// Of what is free on a device beside the batches, what a cut may take: pieces that lie unused, letters
// that wait longer than in the simulated step, and what an evaluation needs are not counted.
constexpr double kShareOfRoom = 0.95;

// Of Strategy::record().
constexpr const char* kRanksKey = "ranks";
constexpr const char* kScheduleKey = "schedule";
constexpr const char* kSplitKey = "split";
constexpr const char* kMicroBatchesKey = "micro_batches";
constexpr const char* kGivenKey = "given";          // whether the split was said
constexpr const char* kTreatmentKey = "treatment";  // what runs again / waits on the host, in bits
constexpr const char* kPredictedKey = "predicted";  // by stage; see to_json(StageAccount)
constexpr const char* kMeasuredKey = "measured";    // likewise

std::string text_of_bits(const std::vector<bool>& bits) {
  std::string text;
  for (const bool bit : bits) text += bit ? '1' : '0';
  return text;
}

std::vector<bool> bits_from(std::string_view text) {
  std::vector<bool> bits;
  for (const char c : text) bits.push_back(c == '1');
  return bits;
}

/// "0110/01", or nothing where all is kept where it is.
std::string text_of_treatment(const PipelineCut& cut) {
  const std::string text = concat(text_of_bits(cut.checkpointed), '/', text_of_bits(cut.offloaded));
  return text.find('1') == std::string::npos ? "" : text;
}

/// Whether the record is of this cut.
bool is_of(const Json& record, const PipelineCut& cut, int64_t ranks) {
  return record.is_object() && record.value(kRanksKey, int64_t{0}) == ranks &&
         record.value(kScheduleKey, std::string()) == cut.schedule &&
         record.value(kMicroBatchesKey, int64_t{0}) == cut.micro_batches &&
         record.value(kSplitKey, std::string()) == text_of_split(cut.first_block) &&
         record.value(kTreatmentKey, std::string()) == text_of_treatment(cut);
}

/// Each parameter is on the rank of its unit: there is no place for others.
void require_parameters_in_units(const torch::nn::Module& module,
                                 const std::vector<Block>& blocks,
                                 std::string_view owner) {
  std::set<const void*> in_units;
  for (const Block& block : blocks) {
    for (const auto& [name, parameter] : parallel::parameters_of(block))
      in_units.insert(parameter.unsafeGetTensorImpl());
  }
  for (const auto& item : module.named_parameters()) {
    if (in_units.contains(item.value().unsafeGetTensorImpl())) continue;
    throw usage_error({.refused = std::string(owner),
                       .rule = "every parameter of the model is one of its units'",
                       .value = item.key(),
                       .hint = "name its module, or itself, in a unit of chain()"});
  }
}

/// What rank 0 finds: what is measured differs from rank to rank, and what follows must not.
std::string found_by_first_rank(const distributed::ProcessGroup& group,
                                const std::function<std::string()>& find) {
  std::string found;
  on_first_rank(group, [&] { found = find(); });
  return group.world_size() > 1 ? group.broadcast_text(found) : found;
}

/// By rank of a pipeline, the bytes that it may hold on its device: its share of what is free
/// among the ranks of this machine that have the same device, and what of the module is there now.
/// Nothing on the CPU, whose memory the ranks share. Collective.
std::vector<double> room_of_ranks(const StrategyRequest& request, int64_t ranks) {
  if (request.device.is_cpu()) return {};
  const auto sharing = std::ranges::count(request.plan.machine_devices, request.device);
  double free = static_cast<double>(tensor::free_bytes_of(request.device)) /
                static_cast<double>(std::max<int64_t>(1, sharing));
  for (const auto& tensors : {request.module->parameters(), request.module->buffers()})
    for (const at::Tensor& tensor : tensors)
      if (tensor.device() == request.device) free += static_cast<double>(tensor.nbytes());
  free = kShareOfRoom * std::max(0.0, free - request.batch_bytes);
  std::vector<double> room(static_cast<size_t>(ranks), free);
  int64_t rank = 0;
  for (const std::string& theirs : request.group.all_gather_text(shortest(free))) {
    double& least = room[static_cast<size_t>(rank++ % ranks)];
    least = std::min(least, to_double(theirs).value_or(free));
  }
  return room;
}

/// Throws a usage error, which lists the units, unless each stage has some.
void require_stages(const PipelineCut& cut, std::string_view owner) {
  if (cut.first_block.back() < std::ssize(cut.blocks)) return;
  std::vector<std::string> units;
  for (size_t i = 0; i < cut.blocks.size(); ++i)
    units.push_back(concat(i, ' ', cut.blocks[i].name));
  throw usage_error({.refused = concat(owner, ": split"),
                     .rule = concat("the units are ", join(units, ", ")),
                     .value = text_of_split(cut.first_block)});
}

/// Throws a usage error unless there is a unit for each stage that the schedule makes.
void require_units(const std::vector<Block>& blocks,
                   const pipeline::ScheduleEntry& schedule,
                   int64_t ranks,
                   std::string_view owner) {
  if (std::ssize(blocks) >= ranks * schedule.stages_per_rank) return;
  throw usage_error({.refused = std::string(owner),
                     .rule = concat("the model has a unit for each of the ",
                                    ranks * schedule.stages_per_rank,
                                    " stages of ",
                                    schedule.name),
                     .value = counted(std::ssize(blocks), "unit"),
                     .hint = concat(schedule.stages_per_rank > 1
                                        ? "take a schedule of one stage a rank, as 1f1b is, or "
                                        : "take ",
                                    "fewer ranks, or several pipelines: pipeline:ranks=N")});
}

/// Of those that the options leave to choose from: what is taken where none is said has one a rank.
const pipeline::ScheduleEntry& schedule_with_fewest_stages(const PipelineStrategyOptions& options) {
  const bool is_open = options.schedule == kMeasured;
  return pipeline::schedules().at(
      parse_spec(is_open ? PipelineStrategyOptions().schedule : options.schedule).name);
}

/// The options with what a run before has chosen, where they leave it open; but for its cut, "auto"
/// if it does not fit.
PipelineStrategyOptions as_before(PipelineStrategyOptions options,
                                  const Json& record,
                                  int64_t ranks) {
  if (options.split != kMeasured || !record.is_object() ||
      record.value(kRanksKey, int64_t{0}) != ranks)
    return options;
  const auto schedule = record.value(kScheduleKey, std::string());
  const auto micro_batches = record.value(kMicroBatchesKey, kMeasuredMicroBatches);
  const bool knows_count = micro_batches != kMeasuredMicroBatches;
  if (options.schedule != kMeasured && options.schedule != schedule) return options;
  const bool open_count = options.micro_batches == kMeasuredMicroBatches;
  if (open_count && !knows_count) return options;
  options.schedule = schedule;
  if (open_count) options.micro_batches = micro_batches;
  options.split = record.value(kSplitKey, options.split);
  return options;
}

Json to_json(const PipelineMeasurements::Found& found) {
  return {found.schedule,
          found.micro_batches,
          text_of_split(found.first_block),
          found.times_room,
          found.forecast,
          to_json(found.predicted)};
}

void take_forecast(PipelineCut& cut, const Json& found) {
  cut.times_room = found.at(3);
  cut.forecast = found.at(4);
  cut.predicted = stages_from(found.at(5));
}

/// What is checkpointed and offloaded within a budget, and the cut that is best with that, if it may change.
void choose_treatment(PipelineCut& cut,
                      PipelineMeasurements& measured,
                      const StrategyRequest& request,
                      const std::vector<double>& room) {
  if (cut.rule.kind != parallel::BlockRule::Kind::kBudget) return;
  const std::string chosen = found_by_first_rank(request.group, [&] {
    const pipeline::Split before = cut.first_block;
    if (cut.is_measured) cut.first_block = measured.cut_within(cut.rule, cut, room);
    const PipelineMeasurements::Treated treated = measured.within(cut.rule, cut);
    const PipelineCut made{.checkpointed = treated.checkpointed, .offloaded = treated.offloaded};
    Json found = Json::array({text_of_bits(treated.checkpointed),
                              text_of_bits(treated.offloaded),
                              nullptr,
                              cut.first_block});
    if (cut.first_block != before || (cut.is_measured && !text_of_treatment(made).empty()))
      found[2] = to_json(measured.treated(cut, treated, room));
    return found.dump();
  });
  const Json found = Json::parse(chosen);
  cut.checkpointed = bits_from(found.at(0).get<std::string>());
  cut.offloaded = bits_from(found.at(1).get<std::string>());
  cut.first_block = found.at(3).get<pipeline::Split>();
  if (!found.at(2).is_null()) take_forecast(cut, found.at(2));
}

/// Of units by their number alone; empty: none, or it follows from their cut.
std::vector<bool> named_by(const parallel::BlockRule& rule, size_t units) {
  if (rule.kind != parallel::BlockRule::Kind::kEvery) return {};
  return parallel::blocks_by_rule(rule, std::vector<BlockBytes>(units));
}

/// Which cut would take least of the ranks' rooms, to a search that looks how far batches may grow:
/// a share of what `found` takes, and the record of that cut. Null: `found` itself.
Json least_of(PipelineMeasurements& measured,
              const PipelineStrategyOptions& options,
              const std::vector<double>& room,
              const PipelineMeasurements::Found& found,
              PipelineCut cut,
              int64_t ranks) {
  const auto least = measured.least(options, room, found);
  if (!least) return nullptr;
  cut.schedule = least->schedule;
  cut.micro_batches = least->micro_batches;
  cut.first_block = least->first_block;
  cut.predicted = least->predicted;
  return {least->share_of_room / found.share_of_room, record_of(cut, ranks, {})};
}

}  // namespace

int64_t stage_of(size_t block, const pipeline::Split& first_block) {
  const auto next = std::ranges::upper_bound(first_block, static_cast<int64_t>(block));
  return next - first_block.begin() - 1;
}

std::vector<std::string> names_of(const std::vector<Block>& blocks) {
  std::vector<std::string> names;
  for (const Block& block : blocks) names.push_back(block.name);
  return names;
}

Json record_of(const PipelineCut& cut, int64_t ranks, const std::vector<StageAccount>& measured) {
  Json record = {{kRanksKey, ranks},
                 {kScheduleKey, cut.schedule},
                 {kMicroBatchesKey, cut.micro_batches},
                 {kSplitKey, text_of_split(cut.first_block)},
                 {kGivenKey, cut.was_given}};
  if (const std::string treatment = text_of_treatment(cut); !treatment.empty())
    record[kTreatmentKey] = treatment;
  if (!cut.predicted.empty()) record[kPredictedKey] = to_json(cut.predicted);
  if (!measured.empty()) record[kMeasuredKey] = to_json(measured);
  return record;
}

std::vector<std::string> lines_of_record(const Json& record) {
  if (!record.is_object()) return {};
  return stage_lines(stages_from(record.value(kPredictedKey, Json())),
                     stages_from(record.value(kMeasuredKey, Json())));
}

std::vector<StageAccount> measured_before(const Json& record,
                                          const PipelineCut& cut,
                                          int64_t ranks) {
  return is_of(record, cut, ranks) ? stages_from(record.value(kMeasuredKey, Json()))
                                   : std::vector<StageAccount>();
}

std::vector<Block> blocks_of(torch::nn::Module& module,
                             const std::vector<at::Generator>& generators,
                             std::string_view owner) {
  std::vector<Block> blocks = parallel::blocks_of_chain(module, generators);
  if (blocks.empty()) {
    throw usage_error(
        {.refused = std::string(owner),
         .rule = "the model is a row of units, between which it can be cut",
         .value = concat(module.name(), ", which is not"),
         .hint = "a module says so by tensor::HasUnits::chain(), as all of the zoo; or take "
                 "--strategy fsdp"});
  }
  require_parameters_in_units(module, blocks, owner);
  return blocks;
}

void check_cut(std::vector<Block> blocks,
               const PipelineStrategyOptions& options,
               const FitPlan& plan,
               const Json& record,
               std::string_view owner) {
  const int64_t ranks = plan.ranks_per_replica;
  require_stage_budgets(plan.options.activation_checkpointing,
                        stage_counts(as_before(options, record, ranks), ranks));
  const auto& schedule = schedule_with_fewest_stages(options);
  if (options.split == kMeasured) return require_units(blocks, schedule, ranks, owner);
  PipelineCut cut{.blocks = std::move(blocks)};
  cut.first_block = split_from(options.split, owner);
  require_stages(cut, owner);
}

PipelineCut cut_module(std::vector<Block> blocks,
                       const StrategyRequest& request,
                       const PipelineStrategyOptions& asked,
                       int64_t ranks,
                       std::string_view owner) {
  PipelineCut cut{.blocks = std::move(blocks)};
  cut.rule = parallel::parse_block_rule(request.plan.options.activation_checkpointing,
                                        "--activation-checkpointing");
  cut.checkpointed = named_by(cut.rule, cut.blocks.size());
  PipelineMeasurements measured(cut.blocks, request, ranks, cut.checkpointed);
  PipelineStrategyOptions options = as_before(asked, request.record, ranks);
  require_stage_budgets(request.plan.options.activation_checkpointing,
                        stage_counts(options, ranks));
  cut.asked_micro_batches = asked.micro_batches;
  cut.batch = request.plan.batch_per_rank;
  cut.replicas = request.group.world_size() / ranks;
  // Of a record without a word: what was measured was predicted, too.
  if (options.split != kMeasured)
    cut.was_given = asked.split != kMeasured ||
                    request.record.value(kGivenKey, !request.record.contains(kPredictedKey));
  if (options.micro_batches != kMeasuredMicroBatches)
    options.micro_batches = pieces_of_batch(request.plan.batch_per_rank, options.micro_batches);
  const auto& schedule = schedule_with_fewest_stages(options);
  if (options.split == kMeasured) require_units(cut.blocks, schedule, ranks, owner);
  const bool is_open =
      options.schedule == kMeasured || options.micro_batches == kMeasuredMicroBatches;
  if (options.split == kMeasured && !is_open && ranks == 1 && schedule.stages_per_rank == 1)
    options.split = "0";
  std::vector<double> room;
  if (request.measures) request.measures(true);
  if (options.split == kMeasured) {
    cut.is_measured = true;
    room = room_of_ranks(request, ranks);
    const Json found = Json::parse(found_by_first_rank(request.group, [&] {
      const PipelineMeasurements::Found fastest = measured.fastest(options, room);
      Json told = to_json(fastest);
      const bool is_searched = !request.plan.options.batch_size.found_by.empty();
      told.push_back(is_searched ? least_of(measured, options, room, fastest, cut, ranks) : Json());
      return told.dump();
    }));
    if (const Json& least = found.at(6); !least.is_null())
      cut.least = LeastMemory{.share = least.at(0), .record = least.at(1)};
    options.schedule = found.at(0);
    options.micro_batches = found.at(1);
    options.split = found.at(2);
    take_forecast(cut, found);
  }
  cut.schedule = options.schedule;
  cut.micro_batches = options.micro_batches;
  cut.first_block = split_from(options.split, owner);
  require_stages(cut, owner);
  choose_treatment(cut, measured, request, room);
  if (request.measures) request.measures(false);
  if (!cut.is_measured && is_of(request.record, cut, ranks))
    cut.predicted = stages_from(request.record.value(kPredictedKey, Json()));
  return cut;
}

}  // namespace muster::train::detail
