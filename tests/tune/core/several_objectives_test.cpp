// Studies of several objectives and with constraints: what is best of them, and what they refuse.
#include <gmock/gmock.h>

#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/tune/core/description.h"
#include "muster/tune/views/status_view.h"

#include "tests/support/error_of.h"
#include "tests/tune/core/core_by_hand.h"

namespace muster::tune {
namespace {

using test::refusal_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

StudySpec of_two(int64_t samples = 20) {
  StudySpec spec = spec_with(samples);
  set_objectives(spec, {{"accuracy", Mode::kMax}, {"step_s", Mode::kMin}});
  spec.goals.constraints = {{"peak_mib", true, 900}};
  return spec;
}

/// Runs a trial with one report to its end.
void run_one(StudyCore& core, const Metrics& metrics) {
  const int64_t number = start(core);
  core.report(number, {.metrics = metrics}, 1);
  core.ended(number, Failure::kNone, "", 2);
}

std::vector<int64_t> front(const StudyCore& core) {
  return {core.front().begin(), core.front().end()};
}

void replay_is_equal(const StudySpec& spec, StudyCore& core) {
  StudyCore again(spec);
  for (const Event& event : core.take_events()) {
    again.replay(
        event_from(event.id, event.time_s, event.trial, kind_of(event), payload_text(event)));
  }
  EXPECT_EQ(front(again), front(core));
  ASSERT_EQ(again.best() == nullptr, core.best() == nullptr);
  if (core.best() != nullptr) {
    EXPECT_EQ(again.best()->number, core.best()->number);
  }
}

TEST(SeveralObjectives, TheFrontIsWhatNoFeasibleTrialIsBetterThan) {
  StudyCore core(of_two());
  run_one(core, {{"accuracy", 0.5}, {"step_s", 2}, {"peak_mib", 800}});
  EXPECT_THAT(front(core), ElementsAre(0));
  run_one(core, {{"accuracy", 0.9}, {"step_s", 1}, {"peak_mib", 901}});  // would be best of all
  EXPECT_THAT(front(core), ElementsAre(0));
  run_one(core, {{"accuracy", 0.7}, {"step_s", 4}, {"peak_mib", 900}});
  EXPECT_THAT(front(core), ElementsAre(0, 2));
  run_one(core, {{"accuracy", 0.5}, {"step_s", 2}, {"peak_mib", 1}});  // as the first
  EXPECT_THAT(front(core), ElementsAre(0, 2, 3));
  run_one(core, {{"accuracy", 0.8}, {"step_s", 3}, {"peak_mib", 1}});
  EXPECT_THAT(front(core), ElementsAre(0, 3, 4));
  EXPECT_EQ(core.best(), nullptr);
  EXPECT_THAT(summary(core, {}),
              HasSubstr("Pareto front: 3 of 5 trials (1 beyond the constraints); hypervolume 0.3 "
                        "from accuracy 0.5, step_s 4"))
      << "(0.8 - 0.5) * (4 - 3), the first and fourth being at the worst accuracy";
  replay_is_equal(of_two(), core);
}

TEST(SeveralObjectives, MayBeMeasuredInDifferentReports) {
  StudyCore core(of_two());
  const int64_t number = start(core);
  core.report(number, {.metrics = {{"accuracy", 0.25}}}, 1);
  core.report(number, {.metrics = {{"accuracy", 0.5}}}, 2);
  core.report(number, {.metrics = {{"step_s", 2}, {"peak_mib", 5}}}, 3);
  core.ended(number, Failure::kNone, "", 4);
  EXPECT_EQ(trial(core, number).state, TrialState::kComplete);
  EXPECT_THAT(trial(core, number).goals.results, ElementsAre(0.5, 2));
  EXPECT_THAT(front(core), ElementsAre(0));
  replay_is_equal(of_two(), core);
}

TEST(SeveralObjectives, ATrialThatEndsWithoutOneOfThemHasFailed) {
  StudySpec spec = of_two();
  spec.give_up_after = 2;
  StudyCore core(spec);
  run_one(core, {{"accuracy", 0.5}, {"peak_mib", 5}});
  EXPECT_EQ(trial(core, 0).state, TrialState::kFailed);
  EXPECT_EQ(trial(core, 0).reason,
            "ended without a number of step_s; it reported accuracy, peak_mib");
  EXPECT_FALSE(core.is_stopped());
  run_one(core, {{"accuracy", 0.5}, {"step_s", kNan}});
  EXPECT_EQ(trial(core, 1).reason,
            "ended without a number of step_s, peak_mib; it reported accuracy, step_s");
  EXPECT_THAT(core.stop_reason(), HasSubstr("2 trials failed and none is complete"))
      << "a misspelt name";
  EXPECT_THAT(front(core), IsEmpty());
  replay_is_equal(spec, core);
}

TEST(SeveralObjectives, AReportWithNoneOfThemIsRefused) {
  StudyCore core(of_two());
  const int64_t number = start(core);
  EXPECT_THAT(refusal_of([&] {
                core.report(number, {.metrics = {{"acuracy", 0.5}}}, 1);
              }),
              AllOf(HasSubstr("accuracy, step_s"), HasSubstr("did you mean \"accuracy\"?")));
}

TEST(SeveralObjectives, WhatGoesByOneScoreRefusesThem) {
  StudySpec spec = of_two();
  spec.scheduler = "asha";
  EXPECT_THAT(refusal_of([&] { StudyCore core(spec); }),
              AllOf(HasSubstr("scheduler asha in a study of several objectives"),
                    HasSubstr("asha:of=accuracy")));
  spec.scheduler = "pbt";
  EXPECT_THAT(refusal_of([&] { StudyCore core(spec); }),
              AllOf(HasSubstr("scheduler pbt in a study of several objectives"),
                    HasSubstr("fifo"),
                    HasSubstr("median:of=accuracy")));
  spec = of_two();
  for (const auto* entry : searchers()) {
    spec.searcher = std::string(entry->name);
    if (entry->enumerates) continue;  // a space without end
    const std::string refusal = test::error_of([&] { StudyCore core(spec); });
    if (entry->takes_goals) {
      EXPECT_EQ(refusal, test::kNoError) << entry->name;
    } else {
      EXPECT_THAT(refusal, AllOf(HasSubstr(concat("searcher ", entry->name)), HasSubstr("nsga2")));
    }
  }
  spec = of_two();
  spec.scope = StudySpec::Scope::kBest;
  EXPECT_THAT(refusal_of([&] { check_study(spec); }), HasSubstr("scope"));
  spec = of_two();
  spec.plateau.patience = 3;
  EXPECT_THAT(refusal_of([&] { check_study(spec); }), HasSubstr("plateau"));
  spec = of_two();
  set_objectives(spec, {{"accuracy", Mode::kMax}, {"accuracy", Mode::kMin}});
  EXPECT_THAT(refusal_of([&] { check_study(spec); }), HasSubstr("another metric"));
  check_study(of_two());
}

TEST(SeveralObjectives, ASchedulerMayGoByOneOfThem) {
  // Median stopping, Ray's rule: worse than the median of the means of at least three others.
  StudySpec spec = of_two();
  spec.scheduler = "median:of=step_s";
  StudyCore core(spec);
  const std::vector<int64_t> trials = {start(core), start(core), start(core), start(core)};
  const auto report = [&](int64_t number, double step_s, double accuracy) {
    return core.report(
        number, {.step = 1, .metrics = {{"accuracy", accuracy}, {"step_s", step_s}}}, 1);
  };
  for (const int64_t number : {0, 1, 2})
    EXPECT_EQ(report(number, 2 + static_cast<double>(number), 0.9).action, Action::kContinue);
  const Decision decision = report(trials[3], 3.5, 1);  // the median is 3, and less is better
  EXPECT_EQ(decision.action, Action::kStop) << "the most accurate one, but slow";
  EXPECT_EQ(decision.reason, "stopped at 1: best 3.5 > cutoff 3 (median of 3)");
  core.ended(trials[3], Failure::kNone, "", 2);
  EXPECT_EQ(trial(core, 3).state, TrialState::kPruned);
  EXPECT_THAT(front(core), IsEmpty()) << "a trial that was stopped early is on no front";
  replay_is_equal(spec, core);
}

TEST(SeveralObjectives, WhatASchedulerGoesByIsInTheFirstReport) {
  StudySpec spec = of_two();
  spec.scheduler = "asha:of=step_s";
  StudyCore core(spec);
  const int64_t number = start(core);
  EXPECT_THAT(refusal_of([&] {
                core.report(number, {.metrics = {{"accuracy", 0.5}}}, 1);
              }),
              AllOf(HasSubstr("\"step_s\""), HasSubstr("scheduler")));
  core.report(number, {.metrics = {{"accuracy", 0.5}, {"step_s", 1}}}, 1);
  const Decision later = core.report(number, {.metrics = {{"accuracy", 0.5}}}, 1);
  EXPECT_EQ(later.action, Action::kContinue);
  EXPECT_EQ(later.reason, "no step_s in the report at 2");
}

TEST(SeveralObjectives, ASchedulerGoesByWhatTheStudyHas) {
  StudySpec spec = of_two();
  for (const char* scheduler : {"asha:of=steps", "hyperband:of=steps", "median:of=steps"}) {
    spec.scheduler = scheduler;
    EXPECT_THAT(refusal_of([&] { StudyCore core(spec); }),
                AllOf(HasSubstr(": of"),
                      HasSubstr("accuracy or step_s"),
                      HasSubstr("did you mean \"step_s\"?")));
  }
  spec.scheduler = "fifo:of=accuracy";
  EXPECT_THAT(refusal_of([&] { StudyCore core(spec); }), HasSubstr("fifo"));
  spec = spec_with(1, "asha:of=los");
  EXPECT_THAT(refusal_of([&] { StudyCore core(spec); }),
              AllOf(HasSubstr("the study's metric, loss"), HasSubstr("did you mean \"loss\"?")));
  StudyCore core(spec_with(1, "asha:of=loss"));
  EXPECT_EQ(core.scheduler_status(), StudyCore(spec_with(1, "asha")).scheduler_status());
}

TEST(SeveralObjectives, OfOneIsAStudyOfOneMetric) {
  StudySpec spec = spec_with(1);
  const StudySpec before = spec;
  set_objectives(spec, {{"loss", Mode::kMin}});
  EXPECT_EQ(StudyCore(spec).description(), StudyCore(before).description());
}

TEST(SeveralObjectives, AreOfTheStudyAndDoNotChange) {
  const Json plain = StudyCore(spec_with(1)).description();
  const Json both = StudyCore(of_two()).description();
  EXPECT_EQ(described_goals(both), of_two().goals);
  EXPECT_EQ(described_goals(plain), Goals{});
  EXPECT_THAT(describe_differences(both, plain),
              testing::IsSupersetOf({testing::StartsWith("- objectives = "),
                                     testing::StartsWith("- constraints = ")}));
  EXPECT_THAT(describe_differences(plain, both),
              testing::Contains(testing::StartsWith("+ constraints = ")));
}

TEST(Constraints, OfOneMetricKeepATrialFromBeingBest) {
  StudySpec spec = spec_with(10);
  spec.goals.constraints = {{"peak_mib", true, 900}};
  StudyCore core(spec);
  run_one(core, {{"loss", 0.1}, {"peak_mib", 1000}});
  EXPECT_EQ(core.best(), nullptr);
  EXPECT_THAT(summary(core, {}), HasSubstr("no trial satisfies the constraints"));
  run_one(core, {{"loss", 0.5}, {"peak_mib", 900}});
  run_one(core, {{"loss", 0.2}, {"peak_mib", 901}});
  ASSERT_NE(core.best(), nullptr);
  EXPECT_EQ(core.best()->number, 1);
  run_one(core, {{"loss", 0.1}});
  EXPECT_EQ(trial(core, 3).reason, "ended without a number of peak_mib; it reported loss");
  replay_is_equal(spec, core);
}

/// Writes down what it is told.
class Listener final : public Searcher {
 public:
  explicit Listener(std::vector<FinishedTrial>& heard) : heard_(heard) {}
  Suggestion suggest(int64_t /*number*/, const Point& partial) override {
    Point point = partial;
    for (double& x : point) x = 0.01;
    point[1] = 3;
    return {.point = std::move(point)};
  }
  void told(const FinishedTrial& trial) override { heard_.push_back(trial); }

 private:
  std::vector<FinishedTrial>& heard_;
};

TEST(SeveralObjectives, SearchersAreToldOfEachAndOfViolations) {
  std::vector<FinishedTrial> heard;
  StudySpec spec = of_two();
  spec.own_searcher = [&](const SearcherContext& context) {
    EXPECT_EQ(context.objectives, spec.goals.objectives);
    return std::make_unique<Listener>(heard);
  };
  StudyCore core(spec);
  run_one(core, {{"accuracy", 0.5}, {"step_s", 2}, {"peak_mib", 950}});
  run_one(core, {{"accuracy", 0.5}});
  OutsideTrial outside{
      .number = 3, .point = {0.02, 4}, .metric = 0.25, .results = {0.25, 8}, .violation = 7};
  EXPECT_TRUE(core.learn(outside, 5));
  outside.results = {1};
  outside.number = 4;
  EXPECT_THAT(refusal_of([&] { core.learn(outside, 5); }),
              HasSubstr("a result for each objective"));
  ASSERT_THAT(heard, testing::SizeIs(3));
  EXPECT_THAT(heard[0].scores, ElementsAre(0.5, -2));
  EXPECT_EQ(heard[0].violation, 50);
  EXPECT_TRUE(heard[0].is_infeasible());
  EXPECT_EQ(heard[1].state, TrialState::kFailed);
  EXPECT_EQ(heard[1].violation, 0) << "it has failed, which is another thing";
  EXPECT_THAT(heard[2].scores, ElementsAre(0.25, -8));
  EXPECT_EQ(heard[2].violation, 7);
  heard.clear();
  replay_is_equal(spec, core);
  EXPECT_THAT(heard, testing::SizeIs(3));
  EXPECT_THAT(heard[2].scores, ElementsAre(0.25, -8)) << "from the log";
}

}  // namespace
}  // namespace muster::tune
