// Searchers and schedulers together, in a study: nobody waits for ever, and a replay does the same.
#include <algorithm>
#include <cmath>
#include <deque>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/tune/core/study_core.h"
#include "muster/tune/search/searcher.h"

#include "tests/support/small_specs.h"

namespace muster::tune {
namespace {

constexpr int64_t kStudyTrials = 60;
constexpr int64_t kTrialsOfASlowSearcher = 24;
constexpr int64_t kTrialSteps = 30;
constexpr const char* kSeveral = "several";

bool has_several(const std::string& scheduler) { return scheduler.starts_with(kSeveral); }

/// Looks among many points: under a sanitizer that takes minutes.
bool is_slow(const std::string& searcher) {
  return test::has_option(searchers().at(parse_spec(searcher).name), "samples");
}

/// "several SCHEDULER": two objectives and a constraint.
StudySpec study(const std::string& searcher, const std::string& scheduler) {
  if (has_several(scheduler)) {
    StudySpec spec = study(searcher, scheduler.substr(std::string(kSeveral).size() + 1));
    set_objectives(spec, {{"loss", Mode::kMin}, {"size", Mode::kMin}});
    spec.goals.constraints = {{"size", true, 7}};
    return spec;
  }
  const bool enumerates = searchers().at(parse_spec(searcher).name).enumerates;
  const int64_t trials = is_slow(searcher) ? kTrialsOfASlowSearcher : kStudyTrials;
  return {.name = "test",
          .metric = "loss",
          .mode = Mode::kMin,
          .num_samples = enumerates ? 1 : trials,
          .space = {{"lr", enumerates ? quniform(0.01, 0.1, 0.01) : loguniform(1e-4, 1e-1)},
                    {"layers", randint(1, 9)}},
          .searcher = searcher,
          .scheduler = scheduler,
          .seed = 5};
}

double loss(const Trial& trial, int64_t t) {
  return std::abs(std::log10(trial.point[0]) + 2) + std::abs(trial.point[1] - 5) / 5 +
         1. / static_cast<double>(t);
}

/// Runs a study with `slots` trials at once, each a report at a time in turn. Returns its events.
std::vector<Event> run(StudyCore& core, size_t slots) {
  std::deque<int64_t> running;
  std::map<int64_t, int64_t> t;
  for (double now_s = 1;; now_s += 1) {
    while (running.size() < slots) {
      const auto next = core.next(now_s);
      if (next.kind == StudyCore::Next::kFinished && running.empty()) return core.take_events();
      if (next.kind != StudyCore::Next::kStart) break;
      running.push_back(next.trial);
    }
    if (running.empty()) {
      ADD_FAILURE() << "waits for nothing";
      return core.take_events();
    }
    const int64_t number = running.front();
    running.pop_front();
    if (t[number] >= kTrialSteps) {  // it was paused at its last one
      core.ended(number, Failure::kNone, "", now_s);
      continue;
    }
    const Trial& trial = core.trials()[static_cast<size_t>(number)];
    const Report report{.step = ++t[number],
                        .metrics = {{"loss", loss(trial, t[number])}, {"size", trial.point[1]}},
                        .checkpoint = "checkpoint"};
    const Decision decision = core.report(number, report, now_s);
    if (decision.action == Action::kContinue && t[number] < kTrialSteps) {
      running.push_back(number);
    } else {
      core.ended(number, Failure::kNone, "", now_s);
    }
  }
}

class SearchInStudy : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(SearchInStudy, EveryTrialIsTriedEndsAndReplaysAsItWas) {
  const auto& [searcher, scheduler] = GetParam();
  const StudySpec spec = study(searcher, scheduler);
  StudyCore core(spec);
  const auto events = run(core, 4);
  EXPECT_EQ(static_cast<int64_t>(core.trials().size()), core.planned_trials());
  for (const Trial& trial : core.trials()) EXPECT_TRUE(is_over(trial.state)) << trial.number;

  StudyCore again(spec);
  for (const Event& event : events) again.replay(event);  // throws where it does otherwise
  EXPECT_EQ(again.next(1e6).kind, StudyCore::Next::kFinished);
  EXPECT_EQ(again.scheduler_status(), core.scheduler_status());
  EXPECT_TRUE(std::ranges::equal(again.front(), core.front()));
  EXPECT_EQ(core.front().empty(), !has_several(scheduler));
}

TEST_P(SearchInStudy, AStudyThatIsInterruptedGoesOnToTheSameEnd) {
  const auto& [searcher, scheduler] = GetParam();
  const StudySpec spec = study(searcher, scheduler);
  StudyCore unbroken(spec), first(spec);
  const auto events = run(unbroken, 1);
  // Replayed up to a place between two trials, it goes on as the unbroken one did.
  size_t cut = events.size() / 2;
  while (cut > 0 && !std::holds_alternative<AttemptEnded>(events[cut - 1].what)) --cut;
  for (size_t i = 0; i < cut; ++i) first.replay(events[i]);
  auto rest = run(first, 1);
  // The trials of this test begin anew, and their checkpoints with them.
  std::erase_if(rest,
                [](const Event& e) { return std::holds_alternative<CheckpointSaved>(e.what); });
  ASSERT_EQ(cut + rest.size(), events.size());
  for (size_t i = 0; i < rest.size(); ++i) {
    EXPECT_EQ(kind_of(rest[i]), kind_of(events[cut + i]));
    EXPECT_EQ(rest[i].trial, events[cut + i].trial);
    if (const auto* added = std::get_if<TrialAdded>(&rest[i].what)) {
      EXPECT_EQ(added->point, std::get<TrialAdded>(events[cut + i].what).point);
    }
  }
}

std::string test_name(const ::testing::TestParamInfo<SearchInStudy::ParamType>& info) {
  std::string name = std::get<0>(info.param) + "_" + std::get<1>(info.param);
  std::ranges::replace_if(
      name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}

/// Every searcher with its defaults, as one that waits, and small, and types that have rules of their
/// own. Who looks among many points looks among few here.
std::vector<std::string> searcher_specs() {
  std::vector<std::string> all;
  for (const std::string& name : searchers().names()) {
    const std::string few = is_slow(name) ? "samples=32," : "";
    if (few.empty()) all.push_back(name);
    all.push_back(name + ":" + few + "max_concurrent=3,batch=true");
  }
  for (const auto& spec : test::small_specs(searchers(), [](const auto&) { return true; })) {
    if (spec.find(':') != spec.npos) all.push_back(spec);
  }
  all.emplace_back("random_then_grid:startup=10,max_concurrent=2");
  return all;
}

std::vector<std::string> scheduler_specs() {
  std::vector<std::string> all = schedulers().names();
  for (const auto& spec : test::small_specs(schedulers(), [](const auto&) { return true; })) {
    if (spec.find(':') != spec.npos) all.push_back(spec);
  }
  all.emplace_back("asha:max_t=20,reduction_factor=2");
  all.emplace_back("asha:max_t=20,reduction_factor=3,variant=promotion");
  return all;
}

/// Of searcher_specs(), those that take several objectives.
std::vector<std::string> searchers_of_several() {
  std::vector<std::string> all = searcher_specs();
  std::erase_if(all, [](const std::string& spec) {
    return !searchers().at(parse_spec(spec).name).takes_goals;
  });
  return all;
}

INSTANTIATE_TEST_SUITE_P(
    OfSeveralObjectives,
    SearchInStudy,
    ::testing::Combine(::testing::ValuesIn(searchers_of_several()),
                       ::testing::Values("several fifo",
                                         "several asha:max_t=20,reduction_factor=2,of=loss",
                                         "several hyperband:max_t=20,of=size",
                                         "several median:hard_stop=false,of=loss")),
    test_name);

INSTANTIATE_TEST_SUITE_P(Pairs,
                         SearchInStudy,
                         ::testing::Combine(::testing::ValuesIn(searcher_specs()),
                                            ::testing::ValuesIn(scheduler_specs())),
                         test_name);

}  // namespace
}  // namespace muster::tune
