// Where a module is cut into the stages of a pipeline, and which of its units run again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/parallel/pipeline/block.h"
#include "muster/pipeline/partition/blocks.h"
#include "muster/train/replicas/strategy.h"

namespace muster::train::detail {

struct PipelineStrategyOptions {
  int64_t ranks = 0;
  std::string schedule = "1f1b";
  int64_t micro_batches = 4;
  std::string split = "auto";
  std::string gantt;
};

inline constexpr std::string_view kMeasuredSplit = "auto";

/// The units of a module, as stages of a pipeline.
struct PipelineCut {
  std::vector<parallel::Block> blocks;
  pipeline::Split first_block;     ///< by stage
  std::vector<bool> checkpointed;  ///< by block; empty: none
  bool is_measured = false;        ///< the stages, now
  /// Of a measured one where none fits into the ranks' memory: how many times what a rank has it
  /// takes, which is the least; else 1.
  double times_room = 1;
};

/// "0/3/5" -> {0, 3, 5}. Throws a usage error that names `owner` for another text.
pipeline::Split split_from(const std::string& text, std::string_view owner);
std::string text_of_split(const pipeline::Split& first_block);

/// The units of a module, as tensor::HasUnits::chain() says. Throws a usage error that names `owner` for
/// a module that is no chain, or has parameters outside of it.
std::vector<parallel::Block> blocks_of(torch::nn::Module& module,
                                       const std::vector<at::Generator>& generators,
                                       std::string_view owner);

/// Throws what cut_module() would for these units, whatever they cost: there are too few for the
/// schedule, or for the split that the options say.
void check_cut(std::vector<parallel::Block> blocks,
               const PipelineStrategyOptions& options,
               int64_t ranks,
               std::string_view owner);

/// Cuts them for pipelines of so many ranks: as the options say, as the request's record has it
/// (Strategy::record), or where a step is shortest by times that rank 0 measures; and chooses what
/// is checkpointed as the plan says. Alike on all ranks. Collective.
PipelineCut cut_module(std::vector<parallel::Block> blocks,
                       const StrategyRequest& request,
                       const PipelineStrategyOptions& options,
                       int64_t ranks,
                       std::string_view owner);

/// The stage that has this block.
int64_t stage_of(size_t block, const pipeline::Split& first_block);

/// For Strategy::record().
Json record_of(const PipelineCut& cut, const PipelineStrategyOptions& options, int64_t ranks);

std::vector<std::string> names_of(const std::vector<parallel::Block>& blocks);

}  // namespace muster::train::detail
