// What a resumed run needs, what it says, and what its records hold.
#include <algorithm>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/track/metrics_reader.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/support/tensorboard_points.h"
#include "tests/train/loop/noted_run.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using test::kEpochSteps;
using test::model_bytes;
using test::Noted;
using test::Ran;
using test::refusal_of;
using test::run;
using test::run_noted;
using test::small_mlp;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ResumedRun, AnotherNumberOfThreadsIsSaidAndTheSameIsNot) {
  const train::TrainOptions options = small_mlp();
  const test::Folder folder;
  run_noted(options, folder.path(), {}, 5, 2);
  EXPECT_EQ(train::load_checkpoint(folder.path()).plan.at("intraop_threads"), 2);
  EXPECT_THAT(run_noted(options, folder.path(), folder.path(), 2, 2).notes,
              Each(Not(HasSubstr("threads per rank"))));
  EXPECT_THAT(
      run_noted(options, folder.path(), folder.path(), 2, 1).notes,
      Contains(AllOf(HasSubstr("threads per rank: 1, before 2"), HasSubstr("OMP_NUM_THREADS=2"))));
}

TEST(ResumedRun, ACheckpointWithoutChecksumIsSaidAndEndsTheSame) {
  const train::TrainOptions options = small_mlp();
  const test::Folder whole, broken;
  run(options, 1, whole.path());
  run(options, 1, broken.path(), {}, kEpochSteps + 2);
  // As the version before wrote it.
  const fs::path file = train::find_checkpoint(broken.path()) / "state.json";
  Json state = parse_json(read_file(file), file.string());
  state["format"] = 2;
  state.erase("checksum");
  state.erase("best_step");
  write_file_atomic(file, json_text(state));
  EXPECT_THAT(run_noted(options, broken.path(), broken.path()).notes,
              Contains(HasSubstr("of an earlier format")));
  EXPECT_EQ(model_bytes(broken.path()), model_bytes(whole.path()));
  EXPECT_EQ(read_file(broken.path() / "best"), read_file(whole.path() / "best"));
}

TEST(ResumedRun, ThePlanDecidesTheNumberOfThreads) {
  const train::TrainOptions options = small_mlp();
  const test::Folder folder;
  const train::TrainData data = train::open_data(options.data, {});
  const train::TrainPlan plan =
      train::resolve(options, {.cores = 4, .intraop_threads = 3}, *data.train, *data.test);
  EXPECT_THAT(train::explain(plan), HasSubstr("threads       3 per rank"));
  int during = 0;
  testing::run_ranks(1, [&](distributed::ProcessGroup group) {
    train::train(plan, data, group, folder.path(), {}, {.stop_requested = [&] {
                   during = at::get_num_threads();
                   return true;
                 }});
  });
  EXPECT_EQ(during, 3);
  train::TrainOptions threads = options;
  threads.devices = "2";
  EXPECT_EQ(train::resolve(threads, {.cores = 8, .intraop_threads = 8}, *data.train, *data.test)
                .intraop_threads,
            4);
}

TEST(ResumedRun, WeightsToStartFromAreNotNeededToGoOn) {
  train::TrainOptions options = small_mlp();
  const test::Folder first, whole, broken;
  const Ran start = run(options, 1, first.path(), {}, 3);
  const fs::path weights = first.path() / "start.safetensors";
  fs::copy_file(start.result.checkpoint / "model.safetensors", weights);
  options.weights = weights;
  run(options, 1, whole.path());
  run(options, 1, broken.path(), {}, 7);
  fs::remove(weights);
  EXPECT_THAT(refusal_of([&] {
                const train::TrainData data = train::open_data(options.data, {});
                train::check_weights(train::resolve(options, {}, *data.train, *data.test));
              }),
              HasSubstr("there is no such file"));
  run_noted(options, broken.path(), broken.path());
  EXPECT_EQ(model_bytes(broken.path()), model_bytes(whole.path()));
}

TEST(ResumedRun, ATestAtAnEpochsEndIsOfThatEpoch) {
  train::TrainOptions options = small_mlp();
  options.max_steps = kEpochSteps;
  const test::Folder folder;
  run(options, 1, folder.path());
  const auto rows = track::read_metrics(folder.path());
  EXPECT_EQ(rows.back().phase, "test");
  EXPECT_EQ(rows.back().epoch, 1);
  options.max_steps = kEpochSteps + 1;
  run_noted(options, folder.path(), folder.path());
  EXPECT_EQ(track::read_metrics(folder.path()).back().epoch, 2);
}

TEST(ResumedRun, AnEarlierTestLeavesTensorBoardWhenTheRunGoesOn) {
  train::TrainOptions options = small_mlp();
  options.epochs = 1;
  const test::Folder folder, whole;
  run(options, 1, folder.path());
  options.epochs = 2;
  run_noted(options, folder.path(), folder.path());
  run(options, 1, whole.path());
  const auto points = test::tensorboard_points(folder.path() / "tensorboard");
  const auto want = test::tensorboard_points(whole.path() / "tensorboard");
  ASSERT_EQ(points.at("test/loss").size(), 1U);
  for (const char* tag : {"test/loss", "validate/loss", "validate/accuracy", "train/loss"})
    EXPECT_EQ(points.at(tag), want.at(tag)) << tag;
}

/// Both files of metrics, but for what hangs on the clock.
std::string rows_but_times(const fs::path& run) {
  const std::vector<std::string> times{"samples_per_s", "elapsed_s", "epoch_s"};
  std::string out;
  std::vector<std::string> names;
  for (const std::string& line : split(read_file(run / "metrics.csv"), '\n')) {
    std::vector<std::string> cells = split(line, ',');
    if (names.empty()) names = cells;
    for (size_t i = 0; i < cells.size(); ++i)
      if (std::ranges::find(times, names.at(i)) == times.end()) out += cells[i] + ',';
    out += '\n';
  }
  for (const std::string& line : split(read_file(run / "metrics.jsonl"), '\n')) {
    if (line.empty()) continue;
    Json row = parse_json(line, "a row");
    for (const std::string& name : times) row.erase(name);
    out += json_text(row) + '\n';
  }
  return out;
}

// Its last steps, fewer than --log-every, have a row where the run ends; not where it goes on.
TEST(ResumedRun, HasTheRowsOfOneThatNeverEndedInsideAnEpoch) {
  train::TrainOptions options = small_mlp();
  options.log_every = 50;
  options.gradient_clip_val = 1;
  options.monitor = "validate_loss";
  options.val_check_interval = 2;
  options.min_delta = 100;  // only the first one is better than none
  const test::Folder whole;
  run_noted(options, whole.path());
  const std::string want = rows_but_times(whole.path());
  const auto want_points = test::tensorboard_points(whole.path() / "tensorboard");
  train::TrainOptions patient = options, short_run = options;
  patient.patience = 1;
  short_run.max_steps = 5;
  for (const train::TrainOptions& ended : {patient, short_run}) {
    const test::Folder folder;
    EXPECT_LT(run_noted(ended, folder.path()).result.steps, kEpochSteps);
    const std::string at_its_end = rows_but_times(folder.path());
    EXPECT_THAT(at_its_end, HasSubstr(",train,"));
    run_noted(ended, folder.path(), folder.path());  // has nothing to train
    EXPECT_EQ(rows_but_times(folder.path()), at_its_end);
    run_noted(options, folder.path(), folder.path());
    EXPECT_EQ(rows_but_times(folder.path()), want);
    const auto points = test::tensorboard_points(folder.path() / "tensorboard");
    for (const char* tag : {"train/loss", "validate/loss", "test/loss"})
      EXPECT_EQ(points.at(tag), want_points.at(tag)) << tag;
  }
}

// A row that was due stays.
TEST(ResumedRun, KeepsTheRowThatWasDueWhereTheRunHadEnded) {
  train::TrainOptions options = small_mlp();
  const test::Folder whole, folder;
  run_noted(options, whole.path());
  options.max_steps = options.log_every;
  run_noted(options, folder.path());
  options.max_steps = 0;
  run_noted(options, folder.path(), folder.path());
  EXPECT_EQ(rows_but_times(folder.path()), rows_but_times(whole.path()));
}

void expect_same_records(const fs::path& run, const fs::path& want) {
  EXPECT_EQ(rows_but_times(run), rows_but_times(want));
  auto points = test::tensorboard_points(run / "tensorboard");
  auto want_points = test::tensorboard_points(want / "tensorboard");
  for (const char* tag :
       {"train/loss", "train/lr", "train/gradient_norm", "validate/loss", "test/loss"})
    EXPECT_EQ(points[tag], want_points[tag]) << tag;
}

/// Of a run with fewer steps than --log-every, whose rows say something of the last step.
train::TrainOptions seldom_logged() {
  train::TrainOptions options = small_mlp();
  options.log_every = 50;
  options.gradient_clip_val = 1;
  options.lr_schedule = "cosine";
  return options;
}

// No step is left for it: what the process before owes is written all the same.
TEST(ResumedRun, HasTheRowsOfOneThatWasNotInterruptedInTheLastStep) {
  for (const int64_t max_steps : {int64_t{0}, kEpochSteps, int64_t{5}}) {
    train::TrainOptions options = seldom_logged();
    options.max_steps = max_steps;
    const int64_t steps = max_steps > 0 ? max_steps : 2 * kEpochSteps;
    const test::Folder whole, folder;
    const Noted want = run_noted(options, whole.path());
    const Noted first = run_noted(options, folder.path(), {}, steps);
    EXPECT_TRUE(first.result.interrupted);
    EXPECT_EQ(first.result.steps, steps);
    const Noted last = run_noted(options, folder.path(), folder.path());
    EXPECT_FALSE(last.result.interrupted);
    EXPECT_EQ(last.result.steps, steps);
    const auto epoch = [&](const std::string& note) { return note.starts_with("epoch "); };
    std::vector<std::string> lines = first.notes;
    lines.insert(lines.end(), last.notes.begin(), last.notes.end());
    EXPECT_EQ(std::ranges::count_if(lines, epoch), std::ranges::count_if(want.notes, epoch));
    expect_same_records(folder.path(), whole.path());
    run_noted(options, folder.path(), folder.path());  // has nothing to make
    expect_same_records(folder.path(), whole.path());
    EXPECT_EQ(model_bytes(folder.path()), model_bytes(whole.path()));
  }
}

struct Told {
  bool interrupted = false;
  std::vector<train::EpochEnd> ends;  // inside an epoch
};

/// As a trial, which is told of an end inside an epoch.
Told run_told(const train::TrainOptions& options,
              const fs::path& output,
              const std::optional<fs::path>& resume = {},
              int64_t stop_after = 0) {
  const train::TrainData data = train::open_data(options.data, {});
  const train::TrainPlan plan =
      train::resolve(options, {.cores = 2, .intraop_threads = 1}, *data.train, *data.test);
  std::optional<train::Checkpoint> from;
  if (resume) from = train::load_checkpoint(*resume);
  Told told;
  int64_t asked = 0;
  train::FitCallbacks callbacks;
  callbacks.stop_requested = [&] { return stop_after > 0 && ++asked >= stop_after; };
  callbacks.ended_inside_epoch = [&](const train::EpochEnd& end) { told.ends.push_back(end); };
  testing::run_ranks(1, [&](distributed::ProcessGroup group) {
    told.interrupted = train::train(plan, data, group, output, from, callbacks).interrupted;
  });
  return told;
}

Json state_of(const fs::path& run) { return train::load_checkpoint(run).loop; }

// The validation was made to tell of the end; a run that never ended there makes none.
TEST(ResumedRun, HasNoValidationOfAnEndInsideAnEpochBehindWhichItGoesOn) {
  train::TrainOptions options = seldom_logged();
  options.lr_schedule = "constant";
  options.monitor = "validate_loss";
  options.patience = 2;
  options.min_delta = 100;  // only the first one is better than none
  options.epochs = 4;
  train::TrainOptions short_run = options;
  short_run.max_steps = 5;
  const test::Folder whole, folder;
  EXPECT_TRUE(run_told(options, whole.path()).ends.empty());
  const Told told = run_told(short_run, folder.path());
  ASSERT_EQ(told.ends.size(), 1U);
  EXPECT_NE(told.ends[0].validation.find("loss"), nullptr);
  const std::string at_its_end = rows_but_times(folder.path());
  EXPECT_THAT(at_its_end, HasSubstr("5,1,validate,"));
  EXPECT_TRUE(run_told(short_run, folder.path(), folder.path()).ends.empty());
  EXPECT_EQ(rows_but_times(folder.path()), at_its_end);
  EXPECT_TRUE(run_told(options, folder.path(), folder.path()).ends.empty());
  expect_same_records(folder.path(), whole.path());
  EXPECT_EQ(state_of(folder.path()), state_of(whole.path()));
  EXPECT_EQ(read_file(folder.path() / "best"), read_file(whole.path() / "best"));
}

// By val_check_interval it is due after that very step: it has one row, also where the run goes on.
TEST(ResumedRun, TellsOfItsEndThoughItWasInterruptedInTheLastStep) {
  for (const int64_t interval : {0, 5}) {
    train::TrainOptions options = seldom_logged();
    options.lr_schedule = "constant";
    options.max_steps = 5;
    options.val_check_interval = interval;
    const test::Folder whole, folder;
    const Told want = run_told(options, whole.path());
    ASSERT_EQ(want.ends.size(), 1U);
    EXPECT_TRUE(run_told(options, folder.path(), {}, 5).interrupted);
    const Told told = run_told(options, folder.path(), folder.path());
    ASSERT_EQ(told.ends.size(), 1U);
    EXPECT_EQ(told.ends[0].epoch, 1);
    EXPECT_EQ(told.ends[0].validation.items(), want.ends[0].validation.items());
    EXPECT_EQ(told.ends[0].train.items(), want.ends[0].train.items());
    expect_same_records(folder.path(), whole.path());
    options.max_steps = 8;
    const test::Folder longer;
    run_told(options, longer.path());
    run_told(options, folder.path(), folder.path());
    expect_same_records(folder.path(), longer.path());
  }
}

TEST(ResumedRun, DamagedRowsAreNamedAndTheRunEndsWithItsResult) {
  const train::TrainOptions options = small_mlp();
  const test::Folder folder;
  run(options, 1, folder.path(), {}, 12);
  const fs::path file = folder.path() / "metrics.jsonl";
  write_file_atomic(file, "{\"step\":3,\"epoch\":1}\n" + read_file(file));
  const Noted resumed = run_noted(options, folder.path(), folder.path());
  EXPECT_THAT(resumed.notes,
              Contains(AllOf(HasSubstr("metrics.jsonl, line 1: \"phase\""),
                             HasSubstr("metrics.jsonl.damaged"))));
  EXPECT_EQ(resumed.result.test.weight, 60);
  EXPECT_EQ(track::read_metrics(folder.path()).front().step, 5);
}

TEST(ResumedRun, RowsThatAreDamagedWhileItRunsDoNotTakeItsResult) {
  const train::TrainOptions options = small_mlp();
  const test::Folder folder;
  const train::TrainData data = train::open_data(options.data, {});
  const train::TrainPlan plan = train::resolve(options, {.cores = 2}, *data.train, *data.test);
  std::vector<std::string> notes;
  testing::run_ranks(1, [&](distributed::ProcessGroup group) {
    const auto result =
        train::train(plan,
                     data,
                     group,
                     folder.path(),
                     {},
                     {.note = [&](const std::string& line) { notes.push_back(line); },
                      .epoch_ended =
                          [&](const train::EpochEnd&) {
                            std::ofstream(folder.path() / "metrics.jsonl", std::ios::app) << "?\n";
                            return false;
                          }});
    EXPECT_EQ(result.test.weight, 60);
  });
  EXPECT_THAT(notes, Contains(HasSubstr("the page of curves is not written")));
}

TEST(ResumedRun, AnEpochsListenerStopsTheRunThereOnAllRanks) {
  const train::TrainOptions options = small_mlp();
  const test::Folder folder, whole;
  run(options, 2, whole.path());
  testing::run_ranks(2, [&](distributed::ProcessGroup group) {
    const train::TrainData data = train::open_data(options.data, {});
    const train::TrainPlan plan = train::resolve(
        options, {.world_size = 2, .cores = 2, .intraop_threads = 1}, *data.train, *data.test);
    train::FitCallbacks callbacks;
    if (group.rank() == 0)
      callbacks.epoch_ended = [](const train::EpochEnd& end) { return end.epoch == 1; };
    const auto result = train::train(plan, data, group, folder.path(), {}, callbacks);
    EXPECT_TRUE(result.interrupted);
    EXPECT_EQ(result.steps, kEpochSteps);
  });
  EXPECT_THAT(train::checkpoint_steps(folder.path()), ElementsAre(kEpochSteps));
  run(options, 2, folder.path(), train::find_checkpoint(folder.path()));
  EXPECT_EQ(model_bytes(folder.path()), model_bytes(whole.path()));
}

}  // namespace
}  // namespace muster
