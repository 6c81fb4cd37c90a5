// Where a module is cut into the stages of a pipeline, and which of its units run again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/parallel/activations/block_choice.h"
#include "muster/parallel/pipeline/block.h"
#include "muster/pipeline/partition/blocks.h"
#include "muster/train/replicas/pipeline_stages.h"
#include "muster/train/replicas/strategy.h"

namespace muster::train::detail {

struct PipelineStrategyOptions {
  int64_t ranks = 0;
  std::string schedule = "1f1b";
  int64_t micro_batches = 4;
  std::string split = "auto";
  std::string gantt;
  double timeout = 0, stall_timeout = 0;
};

/// Of `split` and of `schedule`.
inline constexpr std::string_view kMeasured = "auto";
inline constexpr int64_t kMeasuredMicroBatches = 0;

// Note [Measured pipelines]
// Times of the units are measured once on rank 0, for each number of micro-batches that there is to
// choose from: powers of two, to eight for each rank, and no more than there are samples. Each
// schedule for whose stages there are units is cut where its simulated step is shortest, and the
// shortest of all is taken. A micro-batch is normalised by itself and rounds by itself, so the choice
// is kept in the checkpoints: who goes on on as many ranks goes on with it.
//
// Units that run again are measured so where --activation-checkpointing names them. Within a budget
// they follow from the cut: schedule and number of micro-batches are chosen as if all were kept, and then
// all cuts are tried, each with what is cheapest within the budget, or within less of it where a rank has
// no room for that, the shortest step counts; of very many the one that is best without stays. What is
// predicted, and whether it fits, is of the treated one.

/// The units of a module, as stages of a pipeline.
struct PipelineCut {
  std::vector<parallel::Block> blocks;
  pipeline::Split first_block;  ///< by stage
  std::string schedule;         ///< as the options say, or the one chosen
  /// Likewise, as many as a whole batch is cut into (pieces_of_batch).
  int64_t micro_batches = 0;
  int64_t asked_micro_batches = 0;  ///< as the options say
  std::vector<bool> checkpointed;   ///< by block; empty: none
  std::vector<bool> offloaded;      ///< by stage; empty: none
  /// Samples of a batch on each replica, and how many replicas share a batch of the run.
  int64_t batch = 0, replicas = 1;
  bool is_measured = false;  ///< what the options leave open, now
  bool was_given = false;    ///< its split was said: now, or of a run that goes on when it was made
  parallel::BlockRule rule;  ///< of --activation-checkpointing
  /// Of a measured one that does not fit into the ranks' memory: how many times what a rank has it
  /// takes, which is the least but within a budget of activations; else 1.
  double times_room = 1;
  std::string forecast;  ///< of a measured one: how long a step is, and what of it is bubble
  std::vector<StageAccount>
      predicted;  ///< by stage, where it was measured: now, or by the run before
  /// Of a measured one, in a search for a batch, where another one would take less.
  std::optional<LeastMemory> least;
};

/// "0/3/5" -> {0, 3, 5}. Throws a usage error that names `owner` for another text.
pipeline::Split split_from(const std::string& text, std::string_view owner);
std::string text_of_split(const pipeline::Split& first_block);

/// How many stages a pipeline of these options and so many ranks has; of an open schedule each number
/// that there may be.
std::vector<int64_t> stage_counts(const PipelineStrategyOptions& options, int64_t ranks);
/// Throws a usage error where `rule`, of --activation-checkpointing, has budgets of stages, and of none of
/// these numbers.
void require_stage_budgets(const std::string& rule, const std::vector<int64_t>& stages);

/// The units of a module, as tensor::HasUnits::chain() says. Throws a usage error that names `owner` for
/// a module that is no chain, or has parameters outside of it.
std::vector<parallel::Block> blocks_of(torch::nn::Module& module,
                                       const std::vector<at::Generator>& generators,
                                       std::string_view owner);

/// Throws what cut_module() would for these units, whatever they cost: there are too few for the
/// schedule, or for the split that the options say, or budgets are of another number of stages.
void check_cut(std::vector<parallel::Block> blocks,
               const PipelineStrategyOptions& options,
               const FitPlan& plan,
               const Json& record,
               std::string_view owner);

/// Cuts them for pipelines of so many ranks: as the options say, as the request's record has it
/// (Strategy::record), or as Note [Measured pipelines] says; and chooses what is checkpointed as the
/// plan says. Alike on all ranks. Collective.
PipelineCut cut_module(std::vector<parallel::Block> blocks,
                       const StrategyRequest& request,
                       const PipelineStrategyOptions& options,
                       int64_t ranks,
                       std::string_view owner);

/// " (measured: …; the same again: split=0/2)": how a choice that the options leave open came about, now or
/// before this run, where it was measured or given, and the parameters that leave nothing to measure. Empty
/// where they left none open.
std::string choice_text(const PipelineCut& cut, const PipelineStrategyOptions& options);
/// "; no cut fits …", where none does, or nothing.
std::string room_text(const PipelineCut& cut);
/// "1f1b of 4 micro-batches"; also how many were asked for, if that is more, and why they are fewer.
std::string schedule_text(const PipelineCut& cut);
/// "; 2 of 6 units run again; activations of 1 stage wait on the host", or less of it.
std::string treatment_text(const PipelineCut& cut);

/// The stage that has this block.
int64_t stage_of(size_t block, const pipeline::Split& first_block);

/// For Strategy::record(). `measured`: the stages as they ran; empty: not known yet.
Json record_of(const PipelineCut& cut, int64_t ranks, const std::vector<StageAccount>& measured);

/// What such a record tells of the stages, a line for each; none if it tells nothing.
std::vector<std::string> lines_of_record(const Json& record);
/// The stages as they ran, by such a record of a run with this cut; else empty.
std::vector<StageAccount> measured_before(const Json& record,
                                          const PipelineCut& cut,
                                          int64_t ranks);

std::vector<std::string> names_of(const std::vector<parallel::Block>& blocks);

}  // namespace muster::train::detail
