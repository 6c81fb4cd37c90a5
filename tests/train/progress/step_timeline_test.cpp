// The trace that a run leaves, from ranks that are threads.
#include "muster/train/progress/step_timeline.h"

#include <filesystem>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/distributed/meet/backend.h"
#include "muster/parallel/ddp/ddp.h"
#include "muster/testing/run_ranks.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/support/short_files.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// Steps of a small model; the notes of rank 0.
std::vector<std::string> run(int ranks,
                             const train::TraceOptions& trace,
                             int steps,
                             const std::string& backend = "thread") {
  std::vector<std::string> notes;
  const auto rank_main = [&](const distributed::ProcessGroup& group) {
    torch::nn::Linear net(64, 64);
    parallel::DistributedDataParallel ddp(net, group);
    train::StepTimeline timeline(
        trace, group, [&](const std::string& note) { notes.push_back(note); });
    for (int step = 0; step < steps; ++step) {
      timeline.begin_step(step);
      timeline.begin(diagnose::Phase::kDataWait);
      const torch::Tensor data = torch::ones({8, 64});
      timeline.begin(diagnose::Phase::kForward);
      const torch::Tensor loss = ddp->forward(data).sum();
      timeline.begin(diagnose::Phase::kBackward);
      loss.backward();
      timeline.begin(diagnose::Phase::kOptimizer);
      timeline.end_step();
    }
    timeline.write_once();
    group.barrier();  // whatever became of the file
  };
  testing::run_ranks(ranks, rank_main, {.backend = backend});
  return notes;
}

TEST(StepTimeline, LeavesATraceOfAllRanksAndALine) {
  const auto file = std::filesystem::temp_directory_path() /
                    ("muster-trace-" + std::to_string(::getpid()) + ".json");
  const auto notes = run(2, {.file = file, .steps = 3, .warm_up = 0}, 5);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_THAT(notes[0],
              AllOf(HasSubstr("-bound, "),
                    HasSubstr(" % overlap: data "),
                    HasSubstr("; 3 steps, 2 ranks; trace in " + file.string())));
  const Json trace = parse_json(read_file(file), "trace");
  int collectives = 0, steps = 0;
  for (const Json& event : trace.at("traceEvents")) {
    collectives += event.at("name") == "all_reduce" &&
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

TEST(StepTimeline, LeavesOutTenStepsOfWarmUpUnlessToldOtherwise) {
  const test::Folder folder;
  const fs::path file = folder.path() / "trace.json";
  EXPECT_THAT(run(2, {.file = file}, 12),
              ElementsAre(HasSubstr("of communication a step; 2 steps, 2 ranks; trace in ")));
  EXPECT_THAT(read_file(file), AllOf(HasSubstr("\"step 11\""), Not(HasSubstr("\"step 9\""))));
  EXPECT_EQ(train::TraceOptions().steps, 100);
}

// Larger than what a message holds at once.
TEST(StepTimeline, PartsOfManyStepsReachRankZeroOverEveryBackend) {
  const test::Folder folder;
  const fs::path file = folder.path() / "trace.json";
  for (const char* backend : {"thread", "shm", "gloo"}) {
    const auto* entry = distributed::backends().find(backend);
    if (entry == nullptr || !entry->available().empty()) continue;
    EXPECT_THAT(run(3, {.file = file, .steps = 400, .warm_up = 0}, 400, backend),
                ElementsAre(HasSubstr("400 steps, 3 ranks; trace in ")));
    const Json trace = parse_json(read_file(file), "trace");
    std::map<int, int> steps;
    for (const Json& event : trace.at("traceEvents"))
      steps[event.at("pid").get<int>()] += event.value("cat", "") == "step";
    EXPECT_EQ(steps, (std::map<int, int>{{0, 400}, {1, 400}, {2, 400}})) << backend;
    EXPECT_GT(fs::file_size(file), 3U * 400 * 500) << backend;
  }
}

TEST(StepTimeline, AFileThatCannotBeWrittenIsANoteAndTheRanksGoOn) {
  const test::Folder folder;
  const fs::path file = folder.path() / "gone" / "trace.json";
  for (const int steps : {5, 20}) {  // at the end, and within the run
    EXPECT_THAT(run(3, {.file = file, .steps = 3}, steps),
                ElementsAre(AllOf(HasSubstr("-bound, "),
                                  HasSubstr("; the trace was not written: "),
                                  HasSubstr(file.string()),
                                  HasSubstr("(ENOENT)"))));
  }
}

// A disk that fills up under the file.
TEST(StepTimeline, AFileThatIsCutShortIsANoteAndNothingIsLeft) {
  const test::Folder folder;
  const fs::path file = folder.path() / "trace.json";
  const test::ShortFiles limit(10'000);
  EXPECT_THAT(run(2, {.file = file, .steps = 100, .warm_up = 0}, 100),
              ElementsAre(HasSubstr("; the trace was not written: ")));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(CheckTrace, RefusesNumbersOfStepsOutOfRange) {
  for (const int64_t steps : {int64_t{-3}, int64_t{0}, int64_t{10'001}})
    EXPECT_EQ(test::refusal_of([&] { train::check_trace({.file = "t.json", .steps = steps}); }),
              "--trace-steps: 1 to 10000 steps (got " + std::to_string(steps) + ")");
}

TEST(CheckTrace, RefusesAPlaceWhereNoFileCanBe) {
  const test::Folder folder;
  EXPECT_THAT(test::refusal_of([&] { train::check_trace({.file = folder.path()}); }),
              HasSubstr("the trace is a file, and this is a folder"));
  write_file_atomic(folder.path() / "file", "");
  EXPECT_THAT(
      test::error_of([&] { train::check_trace({.file = folder.path() / "file" / "trace.json"}); }),
      AllOf(HasSubstr("folder of --trace"), HasSubstr("file")));
  train::check_trace({.file = folder.path() / "new" / "trace.json"});
  EXPECT_TRUE(fs::is_empty(folder.path() / "new"));
}

}  // namespace
}  // namespace muster
