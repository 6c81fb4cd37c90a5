// What strategy pipeline is made of.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/train/replicas/pipeline_cut.h"
#include "muster/train/replicas/strategy.h"

namespace muster::train::detail {

inline constexpr Param kPipelineParams[] = {
    param<&PipelineStrategyOptions::ranks>(
        "ranks", "of one pipeline; 0: all. What more ranks there are form replicas of it"),
    param<&PipelineStrategyOptions::schedule>(
        "schedule", "of `muster list schedules`; auto: the fastest by measured times"),
    param<&PipelineStrategyOptions::micro_batches>(
        "micro_batches",
        "into which a batch is cut; fewer where one would have less than two samples; 0: as many "
        "as "
        "are fastest"),
    param<&PipelineStrategyOptions::split>(
        "split", "the units that stages begin with, by number: 0/3/5; auto: measured"),
    param<&PipelineStrategyOptions::gantt>(
        "gantt",
        "an SVG or PNG file: who did what when in the third step (or the last before it); steps of "
        "devices are slower"),
    param<&PipelineStrategyOptions::timeout>("timeout",
                                             "in seconds: a message between stages that takes "
                                             "longer ends the run, which names the stage "
                                             "that stalled; 0: as stall_timeout says"),
    param<&PipelineStrategyOptions::stall_timeout>(
        "stall_timeout",
        "in seconds: how long ranks wait for one that stands still, in a step or between two, "
        "which the error names where it stands; longer than a step; 0: as long as the group "
        "waits")};

/// The options that `params` say. Throws a usage error that names `owner` for what makes no
/// pipeline.
PipelineStrategyOptions pipeline_options(const ParamValues& params, std::string_view owner);

/// As DistributedPipelineOptions have them; 0: the group's.
std::chrono::milliseconds timeout_of(double seconds);

/// How many ranks have one pipeline. Throws a usage error unless `world_size` are whole pipelines.
int64_t ranks_of_pipeline(int64_t world_size,
                          const PipelineStrategyOptions& options,
                          std::string_view owner);

/// StrategyEntry::with_smaller_pieces.
std::string with_smaller_pieces(const FitNumbers& numbers,
                                ParamValues params,
                                std::string_view owner);

/// StrategyEntry::with_one_piece.
std::string with_one_piece(const FitNumbers& numbers, ParamValues params, std::string_view owner);

/// StrategyEntry::with_named_cut.
std::string with_named_cut(const FitNumbers& numbers,
                           ParamValues params,
                           const std::vector<UnitNeeds>& units,
                           double room,
                           std::string_view owner);

/// Throws a usage error where `rule`, of --activation-checkpointing, has budgets of stages, and no pipeline
/// of these options has so many, also of a run that goes on with a cut that it was told before.
void check_stage_budgets(const std::string& rule,
                         const PipelineStrategyOptions& options,
                         int64_t ranks);

/// Throws what make_pipeline() would of a module, as far as one rank can tell: of what its units cost it
/// knows nothing.
void check_pipeline(torch::nn::Module& module,
                    const FitPlan& plan,
                    const ParamValues& params,
                    const Json& record,
                    std::string_view owner);

/// The module's chain in stages over the ranks. Collective.
std::unique_ptr<Strategy> make_pipeline(StrategyRequest request,
                                        const ParamValues& params,
                                        std::string_view owner);

}  // namespace muster::train::detail
