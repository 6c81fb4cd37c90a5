// The order of computation against torch.distributed.pipelining's.
#include <algorithm>

#include <gtest/gtest.h>

#include "muster/pipeline/schedule/schedule.h"

#include "tests/support/golden.h"

namespace muster::pipeline {
namespace {

std::string text_of(const std::vector<Action>& actions) {
  std::vector<std::string> texts;
  for (const Action& action : actions) texts.push_back(to_text(action));
  return join(texts, " ");
}

/// PyTorch's 1F1B numbers the forwards of its last rank from 1 in the lists that it gives out
/// (Schedule1F1B._get_pipeline_order in 2.15); what it carries out, `_step_microbatches`, counts
/// from 0, as ours does.
std::string mended(const std::string& order) {
  std::vector<Action> actions;
  for (const std::string& text : split(order, ' ')) {
    actions.push_back(parse_action(text));
    if (actions.back().kind == ActionKind::kForward) --actions.back().micro_batch;
  }
  return text_of(actions);
}

TEST(PipelineSchedules, ComputeInPyTorchsOrder) {
  int64_t compared = 0;
  const Json golden = test::read_golden("pipeline_order");
  for (const Json& one : golden.at("cases")) {
    const std::string name = one.at("schedule");
    const PipelineSizes sizes{one.at("stages"), one.at("ranks"), one.at("micro_batches")};
    const Schedule ours = make_schedule(name, sizes);
    SCOPED_TRACE(concat(name, " ", sizes.stages, " ", sizes.ranks, " ", sizes.micro_batches));
    for (int64_t rank = 0; rank < sizes.ranks; ++rank) {
      std::string theirs = one.at("orders").at(static_cast<size_t>(rank));
      if (name == "1f1b" && rank == sizes.ranks - 1) theirs = mended(theirs);
      EXPECT_EQ(text_of(ours.lists.ranks.at(static_cast<size_t>(rank))), theirs) << "rank " << rank;
      ++compared;
    }
  }
  EXPECT_GT(compared, 1000);
}

}  // namespace
}  // namespace muster::pipeline
