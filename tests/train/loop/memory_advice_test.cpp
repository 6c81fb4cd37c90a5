// What an error of memory advises: what helps where it ran out, and what the run's strategy takes.
#include "muster/train/loop/memory_advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/params.h"
#include "muster/train/replicas/strategy.h"

namespace muster::train {
namespace {

using In = MemoryFailure::In;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct AdvisedRun {
  std::string strategy = "single";
  int64_t ranks = 1;
  std::string optimizer = "adamw";
  std::string on_oom = "fail";
  int64_t batch_per_rank = 32;
};

FitPlan advised_plan(const AdvisedRun& run) {
  FitPlan plan;
  const auto [strategy, params] = parse_spec(run.strategy);
  const auto [optimizer, optimizer_params] = parse_spec(run.optimizer);
  plan.strategy_name = strategy;
  plan.strategy_params = params;
  plan.optimizer_name = optimizer;
  plan.optimizer_params = optimizer_params;
  plan.world_size = run.ranks;
  const StrategyEntry& entry = strategies().at(strategy);
  if (entry.ranks_per_replica != nullptr)
    plan.ranks_per_replica = entry.ranks_per_replica(run.ranks, params);
  plan.batch_per_rank = run.batch_per_rank;
  plan.options.strategy = run.strategy;
  plan.options.on_oom = run.on_oom;
  return plan;
}

std::string advice(const AdvisedRun& run, const MemoryFailure& failure) {
  return memory_advice(advised_plan(run), failure);
}

TEST(MemoryAdvice, OfAnOptimizersStepIsLessStateAndNoSmallerBatch) {
  EXPECT_EQ(advice({}, {.in = In::kUpdate}),
            "it is the optimizer's step, which no batch size makes smaller: take an optimizer with "
            "less state (--optimizer sgd:momentum=0 has none), --strategy zero2 or fsdp on several "
            "devices, a smaller model, or a device with more memory");
  EXPECT_THAT(advice({.optimizer = "sgd:momentum=0"}, {.in = In::kUpdate}),
              HasSubstr("makes smaller: take --strategy zero2"));
  EXPECT_THAT(advice({}, {.in = In::kUpdate, .is_room_in_batches = true}),
              HasSubstr("beside the batches that wait: take a smaller --batch-size, an optimizer"));
  // A schedule that sets a momentum makes it keep one.
  FitPlan cycle = advised_plan({.optimizer = "sgd:momentum=0"});
  cycle.schedule_name = "one_cycle";
  cycle.schedule_params = {{"pct_start", "0.2"}};
  cycle.most_momentum = 0.95;
  EXPECT_THAT(memory_advice(cycle, {.in = In::kUpdate}),
              HasSubstr("take an optimizer with less state (--optimizer sgd:momentum=0 with "
                        "--lr-schedule one_cycle:cycle_momentum=false,pct_start=0.2 has none), "));
  FitPlan averages = advised_plan({});
  averages.options.ema_decay = 0.9;
  EXPECT_THAT(memory_advice(averages, {.in = In::kUpdate}), HasSubstr("no --ema-decay"));
}

TEST(MemoryAdvice, OfStrategiesThatDivideTheModelIsToDivideItMore) {
  for (const In in : {In::kUpdate, In::kSmallest}) {
    EXPECT_THAT(advice({.strategy = "zero1", .ranks = 2}, {.in = in}),
                HasSubstr(", --strategy fsdp or more devices, "));
    EXPECT_THAT(advice({.strategy = "fsdp", .ranks = 2}, {.in = in}),
                AllOf(HasSubstr(", more devices, "), Not(HasSubstr("--strategy"))));
    EXPECT_THAT(advice({.strategy = "pipeline", .ranks = 2}, {.in = in}),
                AllOf(HasSubstr(", more stages on more devices, "), Not(HasSubstr("--strategy"))));
    EXPECT_THAT(advice({.strategy = "pipeline", .ranks = 2}, {.in = in, .row = 2}),
                Not(HasSubstr("more stages")))
        << "a stage has one unit at least";
    EXPECT_THAT(advice({.strategy = "ddp", .ranks = 2, .on_oom = "split"}, {.in = in}),
                HasSubstr("--strategy zero2 (or fsdp, without --on-oom) on several devices"));
  }
}

// 1F1B has as many micro-batches under way as there are stages, at most; GPipe has them all.
TEST(MemoryAdvice, OfAPipelinesStepIsMoreMicroBatchesWhereFewerSamplesAreUnderWayThen) {
  const auto of = [](const std::string& strategy, int64_t batch) {
    return advice({.strategy = strategy, .ranks = 2, .batch_per_rank = batch}, {.in = In::kStep});
  };
  EXPECT_THAT(of("pipeline", 32),
              HasSubstr("more micro-batches (--strategy pipeline:micro_batches=8)"));
  // All else that was said stays.
  EXPECT_THAT(
      of("pipeline:schedule=zb1p,split=0/3,micro_batches=3,timeout=20", 32),
      HasSubstr("(--strategy pipeline:micro_batches=6,schedule=zb1p,split=0/3,timeout=20)"));
  EXPECT_THAT(of("pipeline:micro_batches=1", 9), HasSubstr("pipeline:micro_batches=4)"))
      << "with two each rank has the whole batch under way, as with one";
  EXPECT_THAT(of("pipeline", 11), HasSubstr("pipeline:micro_batches=5)"));
  for (const auto& [strategy, batch] : {std::pair("pipeline", 8),  // two samples each
                                        {"pipeline:schedule=gpipe", 32},
                                        {"pipeline:micro_batches=0", 32}})
    EXPECT_THAT(of(strategy, batch), Not(HasSubstr("micro-batches"))) << strategy;
}

TEST(MemoryAdvice, NamesASplitJustWhereItIsTaken) {
  const auto of = [](FitPlan plan) { return memory_advice(plan, {.in = In::kStep}); };
  EXPECT_THAT(of(advised_plan({})), HasSubstr(", --on-oom split, which does so by itself, "));
  EXPECT_THAT(memory_advice(advised_plan({}), {.in = In::kStep, .sees_batches = true}),
              HasSubstr(", --on-oom split-unequal, which does so by itself, "));
  EXPECT_THAT(of(advised_plan({.strategy = "pipeline", .ranks = 2})), HasSubstr("--on-oom split"));
  FitPlan unused = advised_plan({.strategy = "ddp", .ranks = 2});
  unused.options.find_unused_parameters = true;
  FitPlan normed = advised_plan({.strategy = "ddp", .ranks = 2});
  normed.options.sync_batch_norm = true;
  for (const FitPlan& plan : {unused,
                              normed,
                              advised_plan({.on_oom = "split"}),
                              advised_plan({.strategy = "fsdp", .ranks = 2}),
                              advised_plan({.strategy = "pipeline:ranks=2", .ranks = 4})})
    EXPECT_THAT(of(plan), Not(HasSubstr("--on-oom"))) << plan.strategy_name;
}

TEST(MemoryAdvice, NamesNothingThatTheRunDoesAlready) {
  FitPlan plan = advised_plan({});
  const MemoryFailure step{.in = In::kStep};
  EXPECT_THAT(
      memory_advice(plan, step),
      HasSubstr("--activation-checkpointing blocks, --precision bf16-mixed, or more devices"));
  plan.options.activation_checkpointing = "every:2";
  plan.precision.kind = Precision::kBfloat16Mixed;
  EXPECT_THAT(memory_advice(plan, step),
              AllOf(Not(HasSubstr("--activation-checkpointing")), Not(HasSubstr("--precision"))));
  EXPECT_THAT(memory_advice(plan, {.in = In::kSmallest}),
              Not(HasSubstr("--activation-checkpointing")));
  EXPECT_THAT(memory_advice(advised_plan({}), {.in = In::kSmallest, .has_units = false}),
              Not(HasSubstr("--activation-checkpointing")));
}

/// Of a stage of two layers of 64 KiB and 2 KiB with their biases, in a device of 200 kB: what the rank
/// held when a second gradient of the larger was asked for.
MemoryNeeds two_gradients() {
  return {.room = 200'000,
          .missing = 4'000,
          .weights = 68'608,
          .gradients = 68'608,
          .largest_gradient = 65'536,
          .of_batch = 1'200};
}

// Weights and gradients are 137 kB and fit; with a second gradient of 65 kB they do not, of whatever batch.
TEST(MemoryAdvice, OfASecondGradientIsFewerPiecesAndNothingThatMakesThemSmaller) {
  AdvisedRun run{.strategy = "pipeline:split=0/1",
                 .ranks = 2,
                 .optimizer = "sgd:momentum=0",
                 .batch_per_rank = 16};
  const auto of = [&](In in) {
    return advice(run, {.in = in, .row = 3, .bytes = two_gradients()});
  };
  const auto useless = Not(AnyOf(HasSubstr("more micro-batches"),
                                 HasSubstr("--on-oom"),
                                 HasSubstr("--activation-checkpointing"),
                                 HasSubstr("--precision")));
  EXPECT_THAT(of(In::kStep),
              AllOf(StartsWith("it is a second gradient of a weight"),
                    HasSubstr("take one micro-batch (--strategy "
                              "pipeline:micro_batches=1,split=0/1), with a smaller --batch-size if "
                              "need be, a smaller model, more stages on more devices, or a device"),
                    useless));
  run.on_oom = "split";
  EXPECT_THAT(of(In::kSmallest), AllOf(HasSubstr("take one micro-batch (--strategy "), useless));
  run = {.optimizer = "sgd:momentum=0", .on_oom = "split", .batch_per_rank = 16};
  EXPECT_THAT(of(In::kSmallest),
              HasSubstr("take a --batch-size that fits without being split, a smaller model, "));
  run.on_oom = "fail";
  EXPECT_THAT(of(In::kStep), Not(HasSubstr("second gradient"))) << "of one piece there is none";
  EXPECT_THAT(of(In::kStep), Not(HasSubstr("--accumulate-grad-batches")));
  EXPECT_THAT(of(In::kStep), Not(HasSubstr("--on-oom"))) << "whose parts would have one";
  FitPlan accumulates = advised_plan(run);
  accumulates.options.accumulate_grad_batches = 2;
  EXPECT_THAT(memory_advice(accumulates, {.in = In::kStep, .bytes = two_gradients()}),
              AllOf(HasSubstr("take no --accumulate-grad-batches"), useless));
}

TEST(MemoryAdvice, OfASampleAtATimeIsNoSmallerBatch) {
  const MemoryNeeds roomy{.room = 200'000, .missing = 100, .of_batch = 50'000};
  for (const std::string strategy : {"single", "ddp", "fsdp", "pipeline"}) {
    const AdvisedRun run{.strategy = strategy, .ranks = 2, .batch_per_rank = 1};
    const std::string said = advice(run, {.in = In::kStep, .row = 3, .bytes = roomy});
    EXPECT_THAT(said,
                AllOf(Not(HasSubstr("--batch-size")),
                      Not(HasSubstr("--on-oom")),
                      Not(HasSubstr("micro-batches"))))
        << strategy;
    EXPECT_THAT(said, HasSubstr("--activation-checkpointing blocks")) << strategy;
  }
  EXPECT_THAT(advice({.batch_per_rank = 2}, {.in = In::kStep, .sees_batches = true}),
              Not(HasSubstr("--batch-size")))
      << "a batch normalisation trains on two at least";
}

// A device without room for the weights: zero2 brings all of them there, as single does.
TEST(MemoryAdvice, OfWeightsIsAStrategyThatNeverHasAllOfThem) {
  const auto of = [](const AdvisedRun& run, std::optional<int64_t> row) {
    return advice(run, {.in = In::kWeights, .row = row});
  };
  for (const AdvisedRun& run : {AdvisedRun{}, AdvisedRun{.strategy = "zero2", .ranks = 2}}) {
    EXPECT_EQ(of(run, 3),
              "no batch size helps; take a smaller model, --strategy fsdp or pipeline on several "
              "devices, or a device with more memory");
    EXPECT_THAT(of(run, std::nullopt), HasSubstr("--strategy fsdp on several"));
  }
  EXPECT_THAT(of({.on_oom = "split"}, 3), HasSubstr("fsdp (without --on-oom) or pipeline on"));
  EXPECT_THAT(of({.strategy = "fsdp", .ranks = 2}, 3),
              HasSubstr("smaller model, more devices, or"));
}

TEST(MemoryAdvice, OfWaysThatFreeTooLittleNamesNone) {
  const auto of = [](const MemoryNeeds& bytes) {
    return advice({.optimizer = "sgd:momentum=0"}, {.in = In::kStep, .row = 4, .bytes = bytes});
  };
  // Half of the activations are less than 16-bit copies of the weights.
  EXPECT_THAT(of({.room = 1e6, .missing = 1, .weights = 3e5, .gradients = 3e5, .of_batch = 2e5}),
              AllOf(HasSubstr("--activation-checkpointing"), Not(HasSubstr("--precision"))));
  // Three of four units' are not what was missing.
  EXPECT_THAT(of({.room = 1e6, .missing = 9e4, .of_batch = 1e5}),
              AllOf(HasSubstr("a smaller --batch-size"),
                    Not(HasSubstr("--activation-checkpointing")),
                    Not(HasSubstr("--precision"))));
  EXPECT_THAT(of({.room = 1e6, .missing = 2e5, .weights = 6e5, .gradients = 6e5, .of_batch = 1e5}),
              StartsWith("no batch size helps; take a smaller model, "));
}

TEST(MemoryAdvice, OfAStepWhoseStateWillNotFitIsLessState) {
  const MemoryNeeds bytes{
      .room = 3e5, .missing = 1e4, .weights = 1e5, .gradients = 1e5, .state = 2e5, .of_batch = 9e4};
  EXPECT_THAT(advice({}, {.in = In::kStep, .row = 3, .bytes = bytes}),
              StartsWith("no batch size helps; take an optimizer with less state (--optimizer "
                         "sgd:momentum=0 has none), a smaller model, "));
}

// Weights, their gradients, buckets as large once more and state, 100 kB each, with a 64 kB gradient on
// its way. No batch makes any of that smaller; without state, or without buckets, it is 366 kB.
TEST(MemoryAdvice, OfBucketsIsLessStateOrNoBucketsAndNothingOfTheBatch) {
  const MemoryNeeds bytes{.room = 4e5,
                          .missing = 9e3,
                          .weights = 1e5,
                          .gradients = 1e5,
                          .largest_gradient = 65'536,
                          .spare_buckets = 1e5,
                          .state = 1e5,
                          .state_is_held = true,
                          .of_batch = 2e4,
                          .inputs = 2e4};
  const auto of = [&](const AdvisedRun& run) {
    return advice(run, {.in = In::kStep, .row = 3, .bytes = bytes});
  };
  const auto less_state =
      HasSubstr("take an optimizer with less state (--optimizer sgd:momentum=0");
  const auto useless = Not(AnyOf(HasSubstr("--batch-size"),
                                 HasSubstr("--activation-checkpointing"),
                                 HasSubstr("--precision")));
  for (const std::string strategy : {"ddp", "dp"})
    EXPECT_THAT(of({.strategy = strategy, .ranks = 2}),
                AllOf(less_state,
                      useless,
                      HasSubstr("--on-oom split, which averages gradients without buckets, "),
                      HasSubstr("--strategy zero2 or fsdp on several devices")));
  EXPECT_THAT(of({.strategy = "zero1", .ranks = 2}),
              AllOf(less_state, useless, HasSubstr("--strategy zero2 or fsdp or more devices")));
  const std::string without = advice(
      {.strategy = "ddp", .ranks = 2, .optimizer = "sgd:momentum=0", .batch_per_rank = 1},
      {.in = In::kStep,
       .row = 3,
       .bytes = MemoryNeeds{.room = 3e5, .weights = 1e5, .gradients = 1e5, .spare_buckets = 1e5}});
  EXPECT_THAT(without, AllOf(Not(HasSubstr("less state")), HasSubstr("--on-oom split"), useless));
}

// A unit lies whole on some device, whatever the strategy and the number of devices.
TEST(MemoryAdvice, OfATensorThatIsMoreThanTheDeviceIsASmallerModelAlone) {
  const std::vector<UnitNeeds> units{{66'560, 0, 32'768}, {132'096, 0, 65'536}, {5'120, 0, 2'048}};
  const MemoryNeeds small{.room = 20'000, .missing = 13'000, .largest_gradient = 32'768};
  for (const std::string strategy : {"single", "ddp", "zero2", "fsdp", "pipeline:split=0/1"})
    for (const auto& row : {units, std::vector<UnitNeeds>()}) {
      if (row.empty() && (strategy == "fsdp" || strategy == "pipeline:split=0/1")) continue;
      EXPECT_EQ(advice({.strategy = strategy, .ranks = 2},
                       {.in = In::kWeights, .row = 3, .bytes = small, .units = row}),
                "no batch size helps; take a smaller model or a device with more memory")
          << strategy;
    }
}

// A batch that is cut lies whole on the device while its pieces add a second gradient.
TEST(MemoryAdvice, OfASecondGradientThatDoesNotFitBesideTheBatchIsNoSplit) {
  MemoryNeeds bytes = two_gradients();
  bytes.room = 250'000;
  bytes.of_batch = 60'000;
  bytes.inputs = 32'768;
  const auto of = [&](const std::string& strategy, int64_t ranks) {
    return advice({.strategy = strategy, .ranks = ranks, .optimizer = "sgd:momentum=0"},
                  {.in = In::kStep, .row = 3, .bytes = bytes});
  };
  EXPECT_THAT(of("single", 1), HasSubstr("--on-oom split, which")) << "202 kB and 33 kB fit";
  EXPECT_THAT(of("pipeline", 2), HasSubstr("more micro-batches"));
  bytes.is_second_gradient = true;
  EXPECT_THAT(of("pipeline", 2), Not(AnyOf(HasSubstr("micro-batches"), HasSubstr("--on-oom"))))
      << "it was in more pieces than one";
  bytes.is_second_gradient = false;
  bytes.inputs = 49'152;
  EXPECT_THAT(of("single", 1),
              AllOf(HasSubstr("a smaller --batch-size"), Not(HasSubstr("--on-oom"))));
  EXPECT_THAT(of("pipeline", 2), AllOf(HasSubstr("batch-size"), Not(HasSubstr("micro-batches"))));
}

// Of a 64 KiB layer between two small ones: measured it has two gradients.
TEST(MemoryAdvice, OfACutThatIsMeasuredIsOneThatIsNamed) {
  const std::vector<UnitNeeds> units{{66'560, 0, 32'768}, {132'096, 0, 65'536}, {5'120, 0, 2'048}};
  const auto of = [&](const std::string& strategy, double room, int64_t batch) {
    return advice({.strategy = strategy, .ranks = 2, .batch_per_rank = batch},
                  {.in = In::kCut, .row = 3, .bytes = MemoryNeeds{.room = room}, .units = units});
  };
  EXPECT_EQ(of("pipeline", 210'000, 16),
            "it is a unit that is measured to find out where to cut: take a cut that is named "
            "(--strategy pipeline:split=0/1), with a smaller --batch-size if need be, a smaller "
            "model, or a device with more memory");
  for (const std::string open : {"pipeline", "pipeline:schedule=auto,micro_batches=0"})
    EXPECT_THAT(of(open, 190'000, 16),  // one gradient of each weight fits
                AllOf(HasSubstr("named (--strategy pipeline:micro_batches=1,split=0/1), with a "),
                      HasSubstr("if need be, a smaller model, or")));
  EXPECT_THAT(of("pipeline", 100'000, 16),
              StartsWith("it is a unit that is measured to find out where to cut: take a smaller "
                         "model or a device with more memory"));
}

}  // namespace
}  // namespace muster::train
