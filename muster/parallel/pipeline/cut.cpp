#include "muster/parallel/pipeline/cut.h"

#include <utility>

#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/parallel/pipeline/pipeline_checks.h"
#include "muster/pipeline/schedule/schedule.h"

namespace muster::parallel {

std::vector<Stage> cut(const std::vector<Block>& blocks,
                       const pipeline::Split& first_block,
                       const std::vector<bool>& checkpointed,
                       const std::vector<StagePlace>& places,
                       const std::vector<bool>& offloaded) {
  refuse_repeated_names(blocks);
  if (!checkpointed.empty() && checkpointed.size() != blocks.size())
    throw usage_error({.refused = "which blocks are checkpointed",
                       .rule = "that is said of all or none",
                       .value = concat(checkpointed.size(), " of ", blocks.size())});
  if (!offloaded.empty() && offloaded.size() != first_block.size())
    throw usage_error({.refused = "which stages are offloaded",
                       .rule = "that is said of all or none",
                       .value = concat(offloaded.size(), " of ", first_block.size())});
  std::vector<Stage> stages;
  std::vector<NamedTensors> parameters, buffers;
  for (size_t s = 0; s < first_block.size(); ++s) {
    const bool last = s + 1 == first_block.size();
    const int64_t from = first_block[s];
    const int64_t to = last ? static_cast<int64_t>(blocks.size()) : first_block[s + 1];
    const auto [device, shares] = places.at(s);
    std::vector<bool> again;
    if (!checkpointed.empty()) again.assign(checkpointed.begin() + from, checkpointed.begin() + to);
    for (int64_t i = from; shares && !again.empty() && i < to; ++i)
      if (checkpointed[static_cast<size_t>(i)])
        refuse_shared_draws(blocks[static_cast<size_t>(i)], device);
    stages.emplace_back(std::vector<Block>(blocks.begin() + from, blocks.begin() + to),
                        device,
                        std::move(again),
                        shares,
                        !offloaded.empty() && offloaded[s]);
    parameters.push_back(stages.back().parameters());
    buffers.push_back(stages.back().buffers());
  }
  refuse_shared(parameters);
  refuse_shared(buffers);
  return stages;
}

StepLists::StepLists(std::string schedule, int64_t stages, int64_t ranks, pipeline::Sends sends)
    : schedule_(std::move(schedule)), stages_(stages), ranks_(ranks), sends_(sends) {}

const pipeline::ActionLists& StepLists::of(int64_t micro_batches) {
  const auto found = lists_.find(micro_batches);
  if (found != lists_.end()) return found->second;
  const pipeline::Schedule schedule = pipeline::make_schedule(
      schedule_, {.stages = stages_, .ranks = ranks_, .micro_batches = micro_batches});
  return lists_.emplace(micro_batches, lower(with_averages(schedule.lists), sends_)).first->second;
}

pipeline::ActionLists forward_part(pipeline::ActionLists lists) {
  for (auto& list : lists.ranks)
    std::erase_if(list, [](const pipeline::Action& action) {
      return action.kind != pipeline::ActionKind::kForward &&
             action.kind != pipeline::ActionKind::kSendActivation &&
             action.kind != pipeline::ActionKind::kReceiveActivation;
    });
  return lists;
}

Tensors put_together(const std::vector<Tensors>& parts) {
  Tensors whole;
  for (size_t i = 0; !parts.empty() && i < parts[0].size(); ++i) {
    Tensors column;
    for (const Tensors& part : parts) column.push_back(part.at(i));
    const bool is_there = column[0].defined();
    whole.push_back(!is_there              ? column[0]
                    : column[0].dim() == 0 ? at::stack(column)
                                           : at::cat(column));
  }
  return whole;
}

}  // namespace muster::parallel
