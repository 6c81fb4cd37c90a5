// Source: Huang et al. 2019, "GPipe"; Narayanan et al. 2021, "Megatron-LM".
#include "muster/base/text.h"
#include "muster/train/plan/fit_plan.h"
#include "muster/train/replicas/pipeline_strategy.h"

namespace muster::train {
namespace {

constexpr std::string_view kPipeline = "strategy pipeline";

void check_pipeline(const FitOptions& options,
                    const FitNumbers& numbers,
                    const ParamValues& params) {
  detail::check_stage_budgets(options.activation_checkpointing,
                              detail::pipeline_options(params, kPipeline),
                              numbers.ranks_per_replica);
  const auto refusal = [](const std::string& flag, std::string rule, std::string hint) {
    return usage_error({.refused = concat(kPipeline, " with ", flag),
                        .rule = std::move(rule),
                        .hint = std::move(hint)});
  };
  if (options.find_unused_parameters) {
    throw refusal("--find-unused-parameters",
                  "every unit of a pipeline takes part in every step",
                  "leave it away");
  }
  if (options.sync_batch_norm) {
    throw refusal("--sync-batch-norm",
                  "a batch normalisation sees one micro-batch at a time",
                  "take --strategy ddp");
  }
  if (options.on_oom != "fail" && numbers.world_size != numbers.ranks_per_replica) {
    throw refusal(
        concat("--on-oom ", options.on_oom),
        "replicas of a pipeline make each step together, and their batches may be cut into "
        "unlike numbers of parts",
        "take one pipeline of all ranks, or --on-oom fail");
  }
}

int64_t batch_pieces(const ParamValues& params) {
  const int64_t pieces = detail::pipeline_options(params, kPipeline).micro_batches;
  if (pieces != detail::kMeasuredMicroBatches) return pieces;
  throw usage_error({.refused = "--batch-size auto",
                     .rule = "batches are tried in whole micro-batches, whose number is said",
                     .value = concat(kPipeline, ": micro_batches=0"),
                     .hint = "say micro_batches=4, or give --batch-size a number"});
}

}  // namespace

extern constinit const StrategyEntry pipeline_entry{
    .name = "pipeline",
    .help =
        "the model cut into stages on the ranks, batches into micro-batches that pass through them",
    .ranks = RankSource::kProcesses,
    .params = detail::kPipelineParams,
    .check = &check_pipeline,
    .make =
        [](StrategyRequest request, const ParamValues& params) {
          return detail::make_pipeline(std::move(request), params, kPipeline);
        },
    .takes_whole_task = true,
    .recomputes_units = true,
    .ranks_per_replica =
        [](int64_t world_size, const ParamValues& params) {
          return detail::ranks_of_pipeline(
              world_size, detail::pipeline_options(params, kPipeline), kPipeline);
        },
    .places_units = true,
    .check_module =
        [](torch::nn::Module& module,
           const FitPlan& plan,
           const ParamValues& params,
           const Json& record) { detail::check_pipeline(module, plan, params, record, kPipeline); },
    .splits_steps = true,
    .batch_pieces = &batch_pieces,
    .with_smaller_pieces =
        [](const FitNumbers& numbers, const ParamValues& params) {
          return detail::with_smaller_pieces(numbers, params, kPipeline);
        },
    .with_one_piece =
        [](const FitNumbers& numbers, const ParamValues& params) {
          return detail::with_one_piece(numbers, params, kPipeline);
        },
    .with_named_cut =
        [](const FitNumbers& numbers,
           const ParamValues& params,
           const std::vector<UnitNeeds>& units,
           double room) { return detail::with_named_cut(numbers, params, units, room, kPipeline); },
    .divides_model = true,
    .lines_of_record = &detail::lines_of_record};

}  // namespace muster::train
