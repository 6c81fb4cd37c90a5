// What a run says of the cut of its pipeline.
#include <algorithm>

#include "muster/base/counted.h"
#include "muster/base/text.h"
#include "muster/train/replicas/pipeline_cut.h"

namespace muster::train::detail {

std::string treatment_text(const PipelineCut& cut) {
  const auto again = std::ranges::count(cut.checkpointed, true);
  const auto offloaded = std::ranges::count(cut.offloaded, true);
  return concat(again > 0 ? concat("; ", again, " of ", cut.blocks.size(), " units run again") : "",
                offloaded > 0 ? concat("; activations of ",
                                       offloaded,
                                       offloaded == 1 ? " stage wait" : " stages wait",
                                       " on the host")
                              : "");
}

std::string room_text(const PipelineCut& cut) {
  using Kind = parallel::BlockRule::Kind;
  if (!(cut.times_room > 1)) return "";
  const std::string more = concat(fixed(100 * (cut.times_room - 1), 0), " % more");
  if (cut.rule.kind == Kind::kBudget && !treatment_text(cut).empty())
    return concat("; it wants ", more, " than the memory that is free, less a twentieth");
  return concat(
      "; no cut fits into the memory that is free, less a twentieth: this one wants least, ",
      more,
      cut.rule.kind == Kind::kOff ? "; --activation-checkpointing blocks may keep less" : "");
}

std::string schedule_text(const PipelineCut& cut) {
  const bool has_fewer = cut.micro_batches < cut.asked_micro_batches;
  return concat(cut.schedule,
                " of ",
                counted(cut.micro_batches, "micro-batch", "micro-batches"),
                has_fewer ? concat(" (",
                                   cut.asked_micro_batches,
                                   " were asked for, of two samples at least: a batch has ",
                                   cut.batch,
                                   cut.replicas > 1 ? " on each replica" : "",
                                   "; take --batch-size ",
                                   2 * cut.asked_micro_batches * cut.replicas,
                                   ", or micro_batches=",
                                   cut.micro_batches,
                                   ")")
                          : "");
}

std::string choice_text(const PipelineCut& cut, const PipelineStrategyOptions& options) {
  const bool was_open = options.split == kMeasured && cut.first_block.size() > 1;
  if (!cut.is_measured && !was_open) return "";
  std::vector<std::string> again;
  if (options.schedule == kMeasured) again.push_back("schedule=" + cut.schedule);
  if (options.micro_batches == kMeasuredMicroBatches)
    again.push_back(concat("micro_batches=", cut.micro_batches));
  again.push_back("split=" + text_of_split(cut.first_block));
  return concat(" (",
                cut.is_measured ? "measured: " + cut.forecast
                : cut.was_given ? "as it was given before"
                                : "as it was measured before",
                "; the same again: ",
                join(again, ","),
                ")");
}

}  // namespace muster::train::detail
