// The trace that a run leaves, from ranks that are threads.
#include "muster/train/step_timeline.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/file.h"
#include "muster/parallel/ddp.h"
#include "muster/testing/run_ranks.h"

namespace muster {
namespace {

using parallel::Phase;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Steps of a small model; the notes of rank 0.
std::vector<std::string> run(int ranks, const train::TraceOptions& trace, int steps) {
  std::vector<std::string> notes;
  testing::run_ranks(ranks, [&](const parallel::ProcessGroup& group) {
    torch::nn::Linear net(64, 64);
    parallel::DistributedDataParallel ddp(net, group);
    train::StepTimeline timeline(
        trace, group, [&](const std::string& note) { notes.push_back(note); });
    for (int step = 0; step < steps; ++step) {
      timeline.begin_step(step);
      timeline.begin(Phase::kDataWait);
      const torch::Tensor data = torch::ones({8, 64});
      timeline.begin(Phase::kForward);
      const torch::Tensor loss = ddp->forward(data).sum();
      timeline.begin(Phase::kBackward);
      loss.backward();
      timeline.begin(Phase::kOptimizer);
      timeline.end_step();
    }
    timeline.finish();
  });
  return notes;
}

TEST(StepTimeline, LeavesATraceOfAllRanksAndALine) {
  const auto file = std::filesystem::temp_directory_path() /
                    ("muster-trace-" + std::to_string(::getpid()) + ".json");
  const auto notes = run(2, {.file = file, .steps = 3}, 5);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_THAT(notes[0],
              AllOf(HasSubstr("-bound, "),
                    HasSubstr(" % overlap: data "),
                    HasSubstr("; 3 steps, 2 ranks; trace in " + file.string())));
  const Json trace = parse_json(read_file(file), "trace");
  int collectives = 0, steps = 0;
  for (const Json& event : trace.at("traceEvents")) {
    collectives += event.at("name") == "allreduce" &&
                   event.at("args").at("bytes").get<int64_t>() == 4 * (64 * 64 + 64);
    steps += event.at("name") == "step 2" && event.at("ph") == "X";
  }
  EXPECT_EQ(collectives, 2 * 3);  // one bucket a step and rank
  EXPECT_EQ(steps, 2);
  std::filesystem::remove(file);
}

TEST(StepTimeline, WithoutAFileLeavesNothing) { EXPECT_TRUE(run(2, {}, 2).empty()); }

TEST(StepTimeline, OfAGroupOfOneHasNoCommunication) {
  const auto file = std::filesystem::temp_directory_path() /
                    ("muster-trace-one-" + std::to_string(::getpid()) + ".json");
  const auto notes = run(1, {.file = file}, 2);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_THAT(notes[0], HasSubstr("exposed communication 0 %"));
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace muster
