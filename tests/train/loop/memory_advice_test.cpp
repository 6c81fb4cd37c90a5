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
using ::testing::HasSubstr;
using ::testing::Not;

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

}  // namespace
}  // namespace muster::train
