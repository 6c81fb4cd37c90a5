// Hooks of fit(): who is called when and with what, and how a run ends whose hook throws.
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/track/metrics_reader.h"
#include "muster/train/plan/callbacks.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/train/loop/noted_run.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using test::kEpochSteps;
using test::model_bytes;
using test::run;
using test::small_mlp;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using train::FitCallbacks;

/// Trains on `ranks` thread ranks, each with its own callbacks; what each ends with.
std::vector<std::string> run_hooked(const train::TrainOptions& options,
                                    int ranks,
                                    const fs::path& output,
                                    const std::function<FitCallbacks(int rank)>& callbacks,
                                    const std::optional<fs::path>& resume = {}) {
  std::vector<std::string> ends(ranks);
  testing::run_ranks(ranks, [&](distributed::ProcessGroup group) {
    const train::TrainData data = train::open_data(options.data, {});
    const train::TrainPlan plan =
        train::resolve(options,
                       {.world_size = ranks, .local_world_size = ranks, .cores = 2},
                       *data.train,
                       *data.test);
    std::optional<train::Checkpoint> from;
    if (resume) from = train::load_checkpoint(*resume);
    const FitCallbacks own = callbacks(group.rank());
    ends[group.rank()] =
        test::error_of([&] { train::train(plan, data, group, output, from, own); });
  });
  return ends;
}

struct Seen {
  std::vector<train::HookPlace> epochs;
  std::vector<train::StepEnd> steps;
  std::vector<train::EvaluationEnd> evaluations;
  std::vector<train::CheckpointEnd> checkpoints;
  std::vector<std::thread::id> threads;
};

TEST(Hooks, AreCalledOnTheirRanksInOrderWithWhatTheRunSays) {
  train::TrainOptions options = small_mlp();
  options.gradient_clip_val = 0.5;
  options.lr_schedule = "step:step_size=1,gamma=0.5";
  options.log_every = 1;
  const test::Folder folder;
  std::vector<Seen> seen(2);
  const auto ends = run_hooked(options, 2, folder.path(), [&](int rank) {
    Seen& own = seen[rank];
    FitCallbacks callbacks;
    callbacks.epoch_began = [&](const train::HookPlace& at) {
      own.epochs.push_back(at);
      own.threads.push_back(std::this_thread::get_id());
    };
    callbacks.step_ended = [&](const train::StepEnd& end) { own.steps.push_back(end); };
    callbacks.evaluated = [&](const train::EvaluationEnd& end) { own.evaluations.push_back(end); };
    callbacks.saved = [&](const train::CheckpointEnd& end) {
      EXPECT_TRUE(fs::exists(end.path / "state.json"));
      own.checkpoints.push_back(end);
    };
    return callbacks;
  });
  EXPECT_THAT(ends, ElementsAre(test::kNoError, test::kNoError));
  const auto rows = track::read_metrics(folder.path());
  for (int rank = 0; rank < 2; ++rank) {
    const Seen& own = seen[rank];
    ASSERT_EQ(own.epochs.size(), 2U);
    EXPECT_EQ(own.epochs[1].epoch, 2);
    EXPECT_EQ(own.epochs[1].step, kEpochSteps);
    EXPECT_EQ(own.epochs[1].rank, rank);
    ASSERT_EQ(own.steps.size(), 2U * kEpochSteps);
    size_t step = 0;
    std::vector<train::EvaluationEnd> left = own.evaluations;
    for (const track::MetricsRow& row : rows) {
      if (row.phase == "train") {
        const train::StepEnd& end = own.steps.at(step++);
        EXPECT_EQ(end.at.rank, rank);
        EXPECT_EQ(end.at.step, row.step);
        EXPECT_EQ(end.at.epoch, row.epoch);
        EXPECT_EQ(end.metrics["loss"], *row.find("loss"));
        EXPECT_EQ(end.lr, *row.find("lr"));
        EXPECT_EQ(end.gradient_norm, *row.find("gradient_norm"));
        continue;
      }
      ASSERT_FALSE(left.empty());
      EXPECT_EQ(name_of(left[0].phase), row.phase);
      EXPECT_EQ(left[0].at.step, row.step);
      EXPECT_EQ(left[0].at.epoch, row.epoch);
      EXPECT_EQ(left[0].metrics["accuracy"], *row.find("accuracy"));
      left.erase(left.begin());
    }
    EXPECT_EQ(step, own.steps.size());
    EXPECT_TRUE(left.empty());
    EXPECT_EQ(own.threads[0], own.threads[1]);
  }
  EXPECT_NE(seen[0].threads[0], seen[1].threads[0]);
  ASSERT_EQ(seen[0].checkpoints.size(), 2U);
  EXPECT_EQ(seen[0].checkpoints[0].at.step, kEpochSteps);
  EXPECT_EQ(seen[0].checkpoints[0].at.epoch, 1);
  EXPECT_EQ(seen[0].checkpoints[0].path, train::checkpoint_folder(folder.path(), kEpochSteps));
  EXPECT_TRUE(seen[1].checkpoints.empty());
}

TEST(Hooks, AStepsHookThatThrowsOnOneRankEndsAllAndLeavesWhatWasSaved) {
  train::TrainOptions options = small_mlp();
  options.checkpoint_every = 4;
  for (const int ranks : {1, 2}) {
    const test::Folder folder, whole;
    run(options, ranks, whole.path());
    const auto ends = run_hooked(options, ranks, folder.path(), [&](int rank) {
      FitCallbacks callbacks;
      if (rank == ranks - 1)
        callbacks.step_ended = [](const train::StepEnd& end) {
          if (end.at.step == 5) throw std::runtime_error("the disk of the log is full");
        };
      return callbacks;
    });
    for (const std::string& end : ends)
      EXPECT_EQ(
          end,
          concat(
              "hook step_ended (rank ", ranks - 1, ", after step 5): the disk of the log is full"));
    EXPECT_THAT(train::checkpoint_steps(folder.path()), ElementsAre(4));
    EXPECT_THAT(read_file(folder.path() / "index.html"), HasSubstr("failed after 5 steps"));
    // And the run goes on from there.
    run(options, ranks, folder.path(), train::find_checkpoint(folder.path()));
    EXPECT_EQ(model_bytes(folder.path()), model_bytes(whole.path()));
  }
}

/// What the run on two ranks ends with where `set` gives that rank a hook that throws.
std::string end_of(int rank, const std::function<void(FitCallbacks&)>& set) {
  train::TrainOptions options = small_mlp();
  options.epochs = 1;
  const test::Folder folder;
  const auto ends = run_hooked(options, 2, folder.path(), [&](int own) {
    FitCallbacks callbacks;
    if (own == rank) set(callbacks);
    return callbacks;
  });
  EXPECT_EQ(ends[0], ends[1]);
  return ends[0];
}

TEST(Hooks, EachOneThatThrowsIsNamedOnAllRanks) {
  const auto boom = [](auto&&...) -> void { throw std::runtime_error("boom"); };
  const auto boom_bool = [](auto&&...) -> bool { throw std::runtime_error("boom"); };
  EXPECT_EQ(end_of(1, [&](auto& c) { c.epoch_began = boom; }),
            "hook epoch_began (rank 1, after step 0): boom");
  EXPECT_EQ(end_of(1, [&](auto& c) { c.evaluated = boom; }),
            "hook evaluated (rank 1, after step 13): boom");
  EXPECT_EQ(end_of(1, [&](auto& c) { c.stop_requested = boom_bool; }),
            "hook stop_requested (rank 1, after step 0): boom");
  EXPECT_EQ(end_of(0, [&](auto& c) { c.saved = boom; }),
            "hook saved (rank 0, after step 13): boom");
  EXPECT_EQ(end_of(0, [&](auto& c) { c.epoch_ended = boom_bool; }),
            "hook epoch_ended (rank 0, after step 13): boom");
  EXPECT_THAT(end_of(0, [&](auto& c) { c.progress = boom; }), StartsWith("hook progress (rank 0"));
  EXPECT_THAT(end_of(0, [&](auto& c) { c.note = boom; }), StartsWith("hook note (rank 0"));
}

// The last step's and the test's: no step comes behind them.
TEST(Hooks, OneThatThrowsAtTheVeryEndEndsTheRun) {
  EXPECT_EQ(end_of(1,
                   [](auto& c) {
                     c.step_ended = [](const train::StepEnd& end) {
                       if (end.at.step == kEpochSteps) throw std::runtime_error("late");
                     };
                   }),
            "hook step_ended (rank 1, after step 13): late");
  EXPECT_EQ(end_of(1,
                   [](auto& c) {
                     c.evaluated = [](const train::EvaluationEnd& end) {
                       if (end.phase == train::Phase::kTest) throw std::runtime_error("later");
                     };
                   }),
            "hook evaluated (rank 1, after step 13): later");
}

TEST(Hooks, AUsageErrorStaysOneAndAnythingElseIsSaid) {
  const train::TrainOptions options = small_mlp();
  const test::Folder folder;
  testing::run_ranks(2, [&](distributed::ProcessGroup group) {
    const train::TrainData data = train::open_data(options.data, {});
    const train::TrainPlan plan =
        train::resolve(options, {.world_size = 2, .cores = 2}, *data.train, *data.test);
    FitCallbacks callbacks;
    if (group.rank() == 1)
      callbacks.step_ended = [](const train::StepEnd&) {
        throw usage_error({.refused = "a metric", .rule = "it has a name"});
      };
    EXPECT_THAT(
        test::refusal_of([&] { train::train(plan, data, group, folder.path(), {}, callbacks); }),
        HasSubstr("hook step_ended (rank 1, after step 1): a metric: it has a name"));
  });
  EXPECT_THAT(end_of(1, [](auto& c) { c.step_ended = [](const train::StepEnd&) { throw 5; }; }),
              HasSubstr("hook step_ended (rank 1, after step 1): it threw something"));
}

}  // namespace
}  // namespace muster
