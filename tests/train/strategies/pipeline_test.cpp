// Strategy pipeline in `muster train`: one rank's numbers, whatever the schedule and the cut, and
// checkpoints that any strategy goes on with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/train/replicas/strategy.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/train/small_run.h"

namespace muster {
namespace {

using test::error_of;
using test::expect_same_state;
using test::model_difference;
using test::Ran;
using test::run_as;
using test::small_run;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Four units without batch normalisation or dropout, so that it does not matter who sees which
/// rows.
train::TrainOptions small_chain() {
  train::TrainOptions options = small_run();
  options.model = "lenet";
  options.data = "synthetic:samples=100,test_samples=30,size=28,classes=4,noise=0.3";
  options.validation_samples = 10;
  options.batch_size = 12;
  options.epochs = 1;
  return options;
}

struct Way {
  const char* strategy;
  int ranks;
};

class PipelineWay : public ::testing::TestWithParam<Way> {};

TEST_P(PipelineWay, TrainsTheModelOfOneRank) {
  const Way& way = GetParam();
  train::TrainOptions options = small_chain();
  options.optimizer = "adamw";
  options.lr = 0.001;
  options.lr_schedule = "one_cycle";
  const test::Folder one_folder, cut_folder;
  const Ran one = run_as("single", options, 1, one_folder.path());
  const Ran cut = run_as(way.strategy, options, way.ranks, cut_folder.path());
  EXPECT_EQ(cut.last.position, one.last.position);
  EXPECT_LE(model_difference(cut.last, one.last), 2e-5);
  ASSERT_EQ(cut.last.optimizer.size(), one.last.optimizer.size());
  for (size_t i = 0; i < one.last.optimizer.size(); ++i) {
    const auto& [name, tensor] = one.last.optimizer[i];
    EXPECT_EQ(cut.last.optimizer[i].first, name);
    EXPECT_TRUE(at::allclose(cut.last.optimizer[i].second, tensor, 1e-3, 1e-6)) << name;
  }
  EXPECT_NEAR(cut.result.test.metrics["loss"], one.result.test.metrics["loss"], 1e-4);
  EXPECT_EQ(cut.result.test.weight, one.result.test.weight);
}

INSTANTIATE_TEST_SUITE_P(Of,
                         PipelineWay,
                         ::testing::Values(Way{"pipeline", 1},
                                           Way{"pipeline", 2},
                                           Way{"pipeline:micro_batches=3,split=0/1/3", 3},
                                           Way{"pipeline:schedule=gpipe,micro_batches=5", 2},
                                           Way{"pipeline:schedule=interleaved,split=0/1/2/3", 2},
                                           Way{"pipeline:schedule=zb1p,micro_batches=2", 2},
                                           Way{"pipeline:schedule=zbv,split=0/1/2/3", 2},
                                           Way{"pipeline:schedule=auto", 2},
                                           Way{"pipeline:micro_batches=0", 2},
                                           Way{"pipeline:schedule=auto,micro_batches=0", 3},
                                           Way{"pipeline:ranks=2", 4},
                                           Way{"pipeline:ranks=1,micro_batches=2", 3}),
                         [](const auto& info) {
                           std::string name = concat(info.param.strategy, "_on_", info.param.ranks);
                           std::ranges::replace_if(
                               name, [](char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

// Where each micro-batch is normalised by itself and drops units by chance, the cut changes nothing:
// neither who runs a unit nor who runs it a second time.
TEST(PipelineTraining, LeavesTheBitsOfAMicroBatchToTheMicroBatch) {
  train::TrainOptions options = small_run();
  options.batch_size = 12;
  options.epochs = 1;
  options.gradient_clip_val = 0.5;
  const test::Folder one_folder, two_folder;
  const Ran one = run_as("pipeline:micro_batches=3", options, 1, one_folder.path());
  const Ran two = run_as("pipeline:micro_batches=3,split=0/2", options, 2, two_folder.path());
  EXPECT_LE(model_difference(two.last, one.last), 2e-6);
  for (const char* rule : {"blocks", "budget:60KiB", "budget:1GiB"}) {
    const test::Folder again_folder;
    options.activation_checkpointing = rule;
    expect_same_state(
        run_as("pipeline:micro_batches=3,split=0/2", options, 2, again_folder.path()).last,
        two.last);
  }
}

TEST(PipelineTraining, AccumulatesAndClipsAsOneRank) {
  train::TrainOptions options = small_chain();
  options.gradient_clip_val = 0.05;
  options.accumulate_grad_batches = 3;
  options.test_weights = "best";
  const test::Folder one_folder, cut_folder;
  const Ran one = run_as("single", options, 1, one_folder.path());
  const Ran cut = run_as("pipeline:ranks=2", options, 4, cut_folder.path());
  EXPECT_LE(model_difference(cut.last, one.last), 2e-5);
  EXPECT_NEAR(cut.result.test.metrics["loss"], one.result.test.metrics["loss"], 1e-4);
}

TEST(PipelineTraining, ResumesBitForBitWithTheCutThatItHad) {
  train::TrainOptions options = small_run();
  options.model = "transformer";  // with dropout
  options.batch_size = 12;
  options.epochs = 1;
  const test::Folder whole_folder, broken_folder;
  const Ran whole = run_as("pipeline:micro_batches=2,split=0/2", options, 2, whole_folder.path());
  const Ran broken =
      run_as("pipeline:micro_batches=2,split=0/2", options, 2, broken_folder.path(), {}, 7);
  ASSERT_TRUE(broken.result.interrupted);
  // Nothing is measured anew: times would choose another.
  const Ran resumed = run_as(
      "pipeline:micro_batches=2", options, 2, broken_folder.path(), broken.result.checkpoint);
  expect_same_state(resumed.last, whole.last);
  EXPECT_EQ(resumed.last.loop.at("strategy").at("given"), true);
}

// What was predicted when units were measured, and how the stages ran, is in the checkpoints, of a run
// that goes on too; --explain reads it there.
TEST(PipelineTraining, KeepsPredictedAndMeasuredStages) {
  train::TrainOptions options = small_chain();
  options.epochs = 1;
  const test::Folder folder;
  const Ran broken = run_as("pipeline:micro_batches=2", options, 2, folder.path(), {}, 4);
  ASSERT_TRUE(broken.result.interrupted);
  const Json record = broken.last.loop.at("strategy");
  ASSERT_EQ(record.at("predicted").size(), 2U);
  ASSERT_EQ(record.at("measured").size(), 2U);
  for (const char* kind : {"predicted", "measured"}) {
    for (const Json& stage : record.at(kind)) {
      EXPECT_GT(stage.at(0).get<double>(), 0) << kind;
      EXPECT_GT(stage.at(1).get<double>(), 0) << kind;
      EXPECT_GE(stage.at(2).get<double>(), 0) << kind;
      EXPECT_LE(stage.at(2).get<double>(), 1) << kind;
    }
  }
  const train::StrategyEntry& entry = train::strategies().at("pipeline");
  const std::vector<std::string> lines = entry.lines_of_record(record);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_THAT(lines[2], HasSubstr(" %; measured "));
  EXPECT_THAT(lines[1], HasSubstr("stage 1: predicted forward "));
  EXPECT_THAT(lines[1], HasSubstr("; measured forward "));
  const Ran resumed =
      run_as("pipeline:micro_batches=2", options, 2, folder.path(), broken.result.checkpoint);
  EXPECT_EQ(resumed.last.loop.at("strategy").at("predicted"), record.at("predicted"));
  EXPECT_EQ(resumed.last.loop.at("strategy").at("given"), false);
}

struct CutChange {
  const char* from;
  int before;
  const char* to;
  int after;
};

class PipelineChange : public ::testing::TestWithParam<CutChange> {};

TEST_P(PipelineChange, GoesOnAsAnUnbrokenRunButForRounding) {
  const CutChange& change = GetParam();
  train::TrainOptions options = small_chain();
  options.optimizer = "sgd:momentum=0.9";
  const test::Folder whole_folder, broken_folder;
  const Ran whole = run_as("single", options, 1, whole_folder.path());
  const Ran broken = run_as(change.from, options, change.before, broken_folder.path(), {}, 4);
  const Ran resumed =
      run_as(change.to, options, change.after, broken_folder.path(), broken.result.checkpoint);
  EXPECT_EQ(resumed.last.position, whole.last.position);
  EXPECT_LE(model_difference(resumed.last, whole.last), 2e-5);
}

INSTANTIATE_TEST_SUITE_P(Of,
                         PipelineChange,
                         ::testing::Values(CutChange{"pipeline", 3, "ddp", 2},
                                           CutChange{"pipeline", 2, "single", 1},
                                           CutChange{"single", 1, "pipeline", 3},
                                           CutChange{"fsdp", 2, "pipeline:ranks=2", 4},
                                           CutChange{"pipeline:ranks=2", 4, "pipeline", 3}),
                         [](const auto& info) {
                           const CutChange& c = info.param;
                           std::string name =
                               concat(c.from, '_', c.before, "_to_", c.to, '_', c.after);
                           std::ranges::replace_if(
                               name, [](char x) { return std::isalnum(x) == 0; }, '_');
                           return name;
                         });

// Of three pipelines one has no sample of the test, and its ranks take part all the same.
TEST(PipelineTraining, EvaluatesWithReplicasThatHaveNoBatch) {
  train::TrainOptions options = small_chain();
  options.data = "synthetic:samples=40,test_samples=2,size=28,classes=4,noise=0.3";
  options.validation_samples = 4;
  const test::Folder one_folder, cut_folder;
  const Ran one = run_as("single", options, 1, one_folder.path());
  const Ran cut = run_as("pipeline:ranks=2", options, 6, cut_folder.path());
  EXPECT_NEAR(cut.result.test.metrics["loss"], one.result.test.metrics["loss"], 1e-4);
  EXPECT_EQ(cut.result.test.weight, 2);
}

TEST(PipelineTraining, AgreesOverGloo) {
  const train::TrainOptions options = small_chain();
  const test::Folder thread_folder, gloo_folder;
  const std::string strategy = "pipeline:split=0/2";
  const Ran threads = run_as(strategy, options, 2, thread_folder.path());
  const Ran gloo = run_as(strategy, options, 2, gloo_folder.path(), {}, 0, "gloo");
  expect_same_state(gloo.last, threads.last);
}

TEST(PipelineTraining, DrawsARealStepAlsoOfARunThatHasFewerThanThree) {
  train::TrainOptions options = small_chain();
  const test::Folder folder;
  const std::string file = folder.path() / "step.svg";
  run_as("pipeline:split=0/2,gantt=" + file, options, 2, folder.path() / "run");
  EXPECT_THAT(read_file(file),
              AllOf(HasSubstr("1f1b, 2 stages on 2 ranks: step 3, bubble "), HasSubstr("F3")));
  options.max_steps = 2;
  run_as("pipeline:split=0/2,gantt=" + file, options, 2, folder.path() / "short");
  EXPECT_THAT(read_file(file), HasSubstr("step 2, bubble "));
}

// A rank that has next to nothing to do waits for the other one, and the trace says so.
TEST(PipelineTraining, TracesWhatRanksWaitForEachOther) {
  const test::Folder folder;
  const std::string file = folder.path() / "trace.json";
  train::TrainOptions options = small_run();
  options.model = "lenet";
  options.data = "synthetic:samples=100,test_samples=30,size=28,classes=4,noise=0.3";
  options.strategy = "pipeline:split=0/4";
  std::vector<std::string> notes;
  testing::run_ranks(2, [&](const distributed::ProcessGroup& group) {
    const train::TrainData data = train::open_data(options.data, {});
    const train::TrainPlan plan = train::resolve(
        options, {.world_size = 2, .local_world_size = 2, .cores = 2}, *data.train, *data.test);
    train::FitCallbacks callbacks{.trace = {.file = file, .steps = 4, .warm_up = 1}};
    if (group.rank() == 0) callbacks.note = [&](const std::string& line) { notes.push_back(line); };
    train::train(plan, data, group, folder.path() / "run", {}, callbacks);
  });
  EXPECT_THAT(read_file(file), AllOf(HasSubstr("\"stage wait\""), HasSubstr("\"backward\"")));
  EXPECT_THAT(notes, ::testing::Contains(HasSubstr("exposed communication")));
}

// A resumed run has what the first one chose, though times have changed.
TEST(PipelineTraining, GoesOnWithTheScheduleAndMicroBatchesThatItChose) {
  train::TrainOptions options = small_run();
  options.batch_size = 12;
  options.epochs = 1;
  const std::string_view open = "pipeline:schedule=auto,micro_batches=0";
  const test::Folder whole_folder, broken_folder;
  const Ran broken = run_as(std::string(open), options, 2, broken_folder.path(), {}, 3);
  ASSERT_TRUE(broken.result.interrupted);
  const Json& chosen = broken.last.loop.at("strategy");
  const std::string closed = concat("pipeline:schedule=",
                                    chosen.at("schedule").get<std::string>(),
                                    ",micro_batches=",
                                    chosen.at("micro_batches").get<int64_t>(),
                                    ",split=",
                                    chosen.at("split").get<std::string>());
  const Ran resumed =
      run_as(std::string(open), options, 2, broken_folder.path(), broken.result.checkpoint);
  Json kept = resumed.last.loop.at("strategy"), first = chosen;
  for (Json* record : {&kept, &first}) record->erase("measured");  // each run's own
  EXPECT_EQ(kept, first);
  expect_same_state(resumed.last, run_as(closed, options, 2, whole_folder.path()).last);
}

// Twelve samples make six micro-batches: so many are planned, run and kept, and those of a run that asks
// for six are the same; an open number is no larger.
TEST(PipelineTraining, PlansAsManyMicroBatchesAsABatchIsCutInto) {
  train::TrainOptions options = small_run();
  options.batch_size = 12;
  options.epochs = 1;
  options.max_steps = 3;
  const test::Folder many_folder, six_folder, open_folder;
  const Ran many = run_as("pipeline:micro_batches=100", options, 2, many_folder.path());
  EXPECT_EQ(many.last.loop.at("strategy").at("micro_batches"), 6);
  const std::string split = many.last.loop.at("strategy").at("split");
  const Ran six =
      run_as(concat("pipeline:micro_batches=6,split=", split), options, 2, six_folder.path());
  expect_same_state(many.last, six.last);
  options.batch_size = 4;
  const Ran open = run_as("pipeline:micro_batches=0", options, 2, open_folder.path());
  EXPECT_LE(open.last.loop.at("strategy").at("micro_batches").get<int64_t>(), 2);
}

TEST(PipelineTraining, SaysWhatCannotBe) {
  const auto refusal = [](const std::string& strategy, auto&& change) {
    train::TrainOptions options = small_run();
    options.batch_size = 12;
    change(options);
    const test::Folder folder;
    return error_of([&] { run_as(strategy, options, 2, folder.path()); });
  };
  const auto as_it_is = [](train::TrainOptions&) {};
  EXPECT_THAT(refusal("pipeline", [](auto& options) { options.sync_batch_norm = true; }),
              HasSubstr("strategy pipeline with --sync-batch-norm"));
  EXPECT_THAT(refusal("pipeline", [](auto& options) { options.comm_hook = "fp16"; }),
              HasSubstr("the gradients of a replica travel by it"));
  EXPECT_THAT(
      refusal("pipeline", [](auto& options) { options.activation_checkpointing = "budget:1KiB"; }),
      ::testing::ContainsRegex("activations of stage [01] on rank [01]: [1-4] blocks? within a "
                               "budget: they need [0-9]+ bytes at least"));
  const struct {
    const char* strategy;
    const char* budgets;
    const char* says;
  } counts[] = {{"pipeline", "9KiB/9KiB/9KiB", "there are 2 (got 3 budgets)"},
                {"pipeline:split=0/2", "9KiB/9KiB/9KiB,offload=off", "there are 2 (got 3 budgets)"},
                {"pipeline:schedule=zb1p", "9KiB/9KiB/9KiB/9KiB", "there are 2 (got 4 budgets)"},
                {"pipeline:schedule=interleaved", "9KiB/9KiB", "there are 4 (got 2 budgets)"},
                {"pipeline:schedule=auto", "9KiB/9KiB/9KiB", "there are 2 or 4 (got 3 budgets)"}};
  for (const auto& [strategy, budgets, says] : counts) {
    const std::string rule = concat("budget:", budgets);
    const std::string error =
        refusal(strategy, [&](auto& options) { options.activation_checkpointing = rule; });
    EXPECT_THAT(error, HasSubstr(concat("--activation-checkpointing ", rule, ": one budget for")));
    EXPECT_THAT(error, HasSubstr(says)) << strategy;
  }
  EXPECT_THAT(refusal("pipeline:ranks=3", as_it_is),
              AllOf(HasSubstr("strategy pipeline: ranks"),
                    HasSubstr("or a divisor of the number of ranks, 2")));
  EXPECT_THAT(refusal("pipeline:micro_batches=-1", as_it_is), HasSubstr("or 0: measured (got -1)"));
  for (const char* open : {"schedule=auto", "micro_batches=0"})
    EXPECT_THAT(refusal(concat("pipeline:split=0/2,", open), as_it_is),
                HasSubstr(concat("split with ", open)));
  EXPECT_THAT(
      refusal("pipeline:split=0/1/2", as_it_is),
      AllOf(HasSubstr("strategy pipeline: split: of 1f1b, there are as many stages as ranks "
                      "(got 0/1/2, 3 stages on 2 ranks)"),
            HasSubstr("hint: name the 2 units that the stages begin with")));
  for (const char* name : {"timeout", "stall_timeout"}) {
    for (const char* seconds : {"-1", "1e7"})
      EXPECT_THAT(refusal(concat("pipeline:", name, "=", seconds), as_it_is),
                  HasSubstr(concat("strategy pipeline: ", name, ": seconds, to 1000000")));
    EXPECT_THAT(refusal(concat("pipeline:", name, "=nan"), as_it_is),
                AllOf(HasSubstr(name), HasSubstr("a finite number")));
  }
  EXPECT_THAT(refusal("pipeline:split=0/x", as_it_is), HasSubstr("as in 0/3/5"));
  EXPECT_THAT(refusal("pipeline:split=0/9", as_it_is),
              HasSubstr("the units are 0 block1, 1 block2, 2 fc1, 3 fc2 (got 0/9)"));
  EXPECT_THAT(refusal("pipeline:schedule=1f1b:eager=maybe", as_it_is), HasSubstr("true or false"));
  EXPECT_THAT(refusal("pipeline:gantt=/proc/nowhere/step.svg", as_it_is),
              HasSubstr("/proc/nowhere"));
  EXPECT_THAT(refusal("pipeline:gantt=/proc", as_it_is), HasSubstr("this is a folder"));
  for (const char* split : {"1/2", "0/0", "0/2/1"})
    EXPECT_THAT(refusal(concat("pipeline:split=", split), as_it_is),
                HasSubstr("from 0 and rising"));
  EXPECT_THAT(refusal("pipeline:schedule=fifo", as_it_is), HasSubstr("fifo"));
  EXPECT_THAT(refusal("pipeline:schedule=interleaved",
                      [](auto& options) { options.model = "mlp:hidden=16"; }),
              HasSubstr("a unit for each of the 4 stages of interleaved (got 3 units)"));
}

}  // namespace
}  // namespace muster
