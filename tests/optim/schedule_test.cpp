// Our schedules against torch.optim.lr_scheduler's, from tests/golden/schedules/golden.json.
#include "muster/optim/schedule.h"

#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/optim/optimizer.h"

#include "tests/support/error_of.h"
#include "tests/support/golden.h"

namespace muster {
namespace {

using optim::make_schedule;
using optim::Schedule;
using optim::ScheduleContext;
using optim::ScheduleValue;
using ::testing::HasSubstr;

constexpr int64_t kSteps = 1000;
const ScheduleContext kRun{.lr = 0.1, .total_steps = kSteps, .total_epochs = kSteps};

/// As in make_golden.py.
double loss(int64_t t) {
  return 1. / static_cast<double>(1 + t / 8) + static_cast<double>((t * 7919 + 13) % 997) / 4000;
}

double metric_of(const Schedule& schedule, int64_t t) {
  return schedule.metric() == "accuracy" ? 1 - loss(t) / 2 : loss(t);
}

std::string spec_of(const Json& expected) {
  std::string spec = expected.at("schedule");
  char separator = ':';
  for (const auto& [name, value] : expected.at("params").items()) {
    spec += separator + name + '=' + (value.is_string() ? value.get<std::string>() : value.dump());
    separator = ',';
  }
  return spec;
}

/// Whether a case counts steps: the default is the schedule's own.
bool by_step(const Json& expected) {
  const std::string unit = expected.at("params").value("unit", "");
  return unit == "step" || (unit.empty() && expected.at("schedule") == "one_cycle") ||
         (expected.at("schedule") == "constant");
}

std::vector<ScheduleValue> values_of(Schedule& schedule, bool steps) {
  std::vector<ScheduleValue> out;
  for (int64_t t = 0; t < kSteps; ++t) {
    // The other count goes another way, so that a schedule that looks at it is seen.
    out.push_back(steps ? schedule.at({.step = t, .epoch = t / 10})
                        : schedule.at({.step = t * 10, .epoch = t}));
    if (!schedule.metric().empty()) schedule.after_epoch(metric_of(schedule, t));
  }
  return out;
}

void expect_values(const std::vector<double>& ours,
                   const Json& expected,
                   const Json& at,
                   double tolerance,
                   const std::string& what) {
  for (size_t i = 0; i < at.size(); ++i) {
    const auto t = at[i].get<size_t>();
    EXPECT_NEAR(ours[t], expected.at("at")[i].get<double>(), tolerance) << what << " at " << t;
  }
  for (size_t block = 0; block < ours.size() / 100; ++block) {
    double sum = 0;
    for (size_t t = block * 100; t < (block + 1) * 100; ++t)
      sum += ours[t] * static_cast<double>(1 + t % 7);
    // 100 values, weighted by up to 7, and the rounding of their sum.
    EXPECT_NEAR(sum, expected.at("sums")[block].get<double>(), 400 * tolerance)
        << what << " from " << block * 100;
  }
}

TEST(Schedules, EqualThoseOfTorchOverAThousandSteps) {
  const Json data = test::read_golden("schedules");
  ASSERT_EQ(data.at("steps"), kSteps);
  std::set<std::string> seen;
  for (const Json& expected : data.at("cases")) {
    const std::string spec = spec_of(expected);
    const auto schedule = make_schedule(spec, kRun);
    seen.insert(expected.at("schedule"));
    const Json& values = expected.at("values");
    std::vector<double> rates, momenta;
    for (const ScheduleValue& value : values_of(*schedule, by_step(expected))) {
      rates.push_back(value.lr);
      if (value.momentum) momenta.push_back(*value.momentum);
    }
    expect_values(rates, values.at("lr"), data.at("at"), values.at("tolerance"), spec);
    ASSERT_EQ(momenta.size(), values.contains("momentum") ? kSteps : 0) << spec;
    if (!momenta.empty())
      expect_values(momenta,
                    values.at("momentum"),
                    data.at("at"),
                    values.at("tolerance"),
                    spec + " momentum");
  }
  EXPECT_EQ(seen.size(), optim::schedules().size()) << "a schedule has no golden";
}

/// Enough to make each schedule; the others have defaults for all their parameters.
std::string least_spec(const optim::ScheduleEntry& entry) {
  return entry.name == "multi_step" ? "multi_step:milestones=10+20" : std::string(entry.name);
}

TEST(Schedules, GoOnFromTheirSavedStateAsIfUnbroken) {
  for (const optim::ScheduleEntry* entry : optim::schedules()) {
    std::string spec = least_spec(*entry);
    if (entry->name == "plateau") spec += ":factor=0.8,patience=2,cooldown=3,threshold=0.01";
    for (const int64_t broken_at : {0, 1, 13, 14, 15, 16, 17, 500}) {
      const auto straight = make_schedule(spec, kRun);
      auto broken = make_schedule(spec, kRun);
      for (int64_t t = 0; t < kSteps; ++t) {
        if (t == broken_at) {
          const Json state = parse_json(broken->state().dump(), "state");
          broken = make_schedule(spec, kRun);
          broken->load_state(state);
        }
        ASSERT_EQ(straight->at({.step = t, .epoch = t}).lr, broken->at({.step = t, .epoch = t}).lr)
            << spec << " at " << t;
        for (Schedule* schedule : {straight.get(), broken.get()}) {
          if (!schedule->metric().empty()) schedule->after_epoch(metric_of(*schedule, t));
        }
      }
      EXPECT_EQ(straight->state(), broken->state());
    }
  }
}

TEST(Schedules, WarmUpInStepsWhateverTheUnit) {
  const auto schedule =
      make_schedule("step:step_size=1,gamma=0.5,warmup=4,warmup_factor=0.2", kRun);
  EXPECT_DOUBLE_EQ(schedule->at({.step = 0, .epoch = 0}).lr, 0.1 * 0.2);
  EXPECT_DOUBLE_EQ(schedule->at({.step = 2, .epoch = 1}).lr, 0.1 * 0.6);
  EXPECT_DOUBLE_EQ(schedule->at({.step = 4, .epoch = 2}).lr, 0.1 * 0.25);
}

TEST(Schedules, TakeTheWholeRunByDefault) {
  const ScheduleContext run{.lr = 1, .total_steps = 60, .total_epochs = 3};
  EXPECT_NEAR(make_schedule("cosine", run)->at({.step = 60, .epoch = 3}).lr, 0, 1e-15);
  EXPECT_NEAR(make_schedule("cosine:unit=step,warmup=20", run)->at({.step = 40, .epoch = 2}).lr,
              0.5,
              1e-15);
  EXPECT_DOUBLE_EQ(make_schedule("one_cycle", run)->at({.step = 59, .epoch = 2}).lr, 1. / 25 / 1e4);
}

TEST(Schedules, OneCycleStaysAtItsEnd) {
  const auto schedule = make_schedule("one_cycle", {.lr = 1, .total_steps = 10, .total_epochs = 1});
  const ScheduleValue last = schedule->at({.step = 9});
  EXPECT_DOUBLE_EQ(last.lr, 1. / 25 / 1e4);
  EXPECT_EQ(schedule->at({.step = 10}).lr, last.lr);
  EXPECT_EQ(schedule->at({.step = 1000}).lr, last.lr);
}

TEST(Schedules, AreFiniteForTheShortestRuns) {
  for (const optim::ScheduleEntry* entry : optim::schedules()) {
    for (int64_t total = 1; total < 12; ++total) {
      for (const char* more : {"", "three_phase=true", "pct_start=0", "pct_start=1"}) {
        std::string spec = least_spec(*entry);
        if (*more != 0) {
          if (entry->name != "one_cycle") continue;
          spec += concat(':', more);
        }
        const auto schedule =
            make_schedule(spec, {.lr = 0.1, .total_steps = total, .total_epochs = 1});
        for (int64_t step = 0; step <= total; ++step) {
          const ScheduleValue value = schedule->at({.step = step, .epoch = step == total ? 1 : 0});
          EXPECT_TRUE(std::isfinite(value.lr) && value.lr >= 0 && value.lr <= 0.1 + 1e-12)
              << spec << ' ' << total << ' ' << step << ' ' << value.lr;
          EXPECT_TRUE(!value.momentum ||
                      (*value.momentum >= 0.85 - 1e-12 && *value.momentum <= 0.95 + 1e-12));
        }
      }
    }
  }
}

TEST(Schedules, SetWhatTheOptimizerMovesWith) {
  const torch::Tensor weight = torch::zeros({2}).requires_grad_();
  const auto optimizer = optim::optimizers().at("adam").make({{"w", weight}}, 1, {});
  const auto schedule = make_schedule("one_cycle", kRun);
  optim::apply(schedule->at({}), *optimizer);
  EXPECT_DOUBLE_EQ(optimizer->lr(), 0.1 / 25);
  EXPECT_DOUBLE_EQ(*optimizer->momentum(), 0.95);
}

// What estimates of an optimizer's state go by.
TEST(Schedules, SetNoGreaterMomentumThanTheirEntriesSay) {
  const auto expect_as_said = [](const optim::ScheduleEntry& entry, const std::string& spec) {
    double most = 0;
    const auto schedule = make_schedule(spec, kRun);
    for (int64_t t = 0; t < kSteps; ++t)
      most = std::max(most, schedule->at({.step = t, .epoch = t}).momentum.value_or(0));
    EXPECT_NEAR(optim::most_momentum(entry, parse_spec(spec).params), most, 1e-3) << spec;
    return most;
  };
  for (const optim::ScheduleEntry* entry : optim::schedules()) {
    expect_as_said(*entry, least_spec(*entry));
    if (!entry->without_momentum.empty()) {
      EXPECT_EQ(expect_as_said(*entry, concat(entry->name, ':', entry->without_momentum)), 0);
    }
  }
  const optim::ScheduleEntry& cycle = optim::schedules().at("one_cycle");
  EXPECT_GT(expect_as_said(cycle, "one_cycle:base_momentum=0.6,max_momentum=0"), 0.5);
  expect_as_said(cycle, "one_cycle:base_momentum=0,max_momentum=0");
}

TEST(Schedules, RefuseWhatMakesNoSense) {
  const auto error_of = [](const std::string& spec) {
    try {
      make_schedule(spec, kRun);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(error_of("cosin"), HasSubstr("cosine"));
  EXPECT_THAT(error_of("cosine:tmax=3"), HasSubstr("t_max"));
  EXPECT_THAT(error_of("cosine:unit=batch"), HasSubstr("epoch or step"));
  EXPECT_THAT(error_of("cosine:t_max=-1"), HasSubstr("t_max=-1"));
  EXPECT_THAT(error_of("step:step_size=0"), HasSubstr("step_size=0"));
  EXPECT_THAT(error_of("step:gamma=nan"),
              HasSubstr("\"gamma\": a finite number is needed (got \"nan\")"));
  EXPECT_THAT(error_of("step:warmup=1000"), HasSubstr("1000 steps"));
  EXPECT_THAT(error_of("step:warmup=5,warmup_factor=0"), HasSubstr("warmup_factor"));
  EXPECT_THAT(error_of("multi_step"), HasSubstr("milestones=30+60+80"));
  EXPECT_THAT(error_of("multi_step:milestones=30+20"), HasSubstr("rising"));
  EXPECT_THAT(error_of("exponential:gamma=1.5"), HasSubstr("1.5"));
  EXPECT_THAT(error_of("one_cycle:total_steps=500"), HasSubstr("not over before the run"));
  EXPECT_THAT(error_of("one_cycle:anneal=cosine"), HasSubstr("cos or linear"));
  EXPECT_THAT(error_of("one_cycle:three_phase=true,pct_start=0.6"), HasSubstr("0.5"));
  EXPECT_THAT(error_of("plateau:metric=acuracy"), HasSubstr("accuracy"));
  EXPECT_THAT(error_of("plateau:factor=1"), HasSubstr("factor=1"));
  EXPECT_THAT(error_of("plateau:unit=step"), HasSubstr("epoch"));
}

// As ReduceLROnPlateau(mode="min", patience=0) of an error and mode="max" of a score.
TEST(Plateau, WatchesTheMetricsOfTheRunInTheDirectionInWhichTheyGetBetter) {
  const ScheduleContext run{.lr = 1,
                            .total_steps = 10,
                            .total_epochs = 10,
                            .metrics = {{.name = "error", .wants_less = true}, {.name = "score"}}};
  for (const bool falls : {true, false}) {
    const std::string name = falls ? "error" : "score";
    const auto schedule = make_schedule(concat("plateau:patience=0,metric=", name), run);
    EXPECT_EQ(schedule->metric(), name);
    schedule->after_epoch(2);
    schedule->after_epoch(falls ? 1 : 3);
    EXPECT_DOUBLE_EQ(schedule->at({}).lr, 1);
    schedule->after_epoch(falls ? 3 : 1);
    EXPECT_DOUBLE_EQ(schedule->at({}).lr, 0.1);
  }
  EXPECT_THAT(test::refusal_of([&] { make_schedule("plateau:metric=accuracy", run); }),
              HasSubstr("loss or error or score"));
}

// The plan of a run refuses those that need one where nothing is held out.
TEST(Schedules, SayWhetherTheyNeedAMetricOfTheValidation) {
  for (const optim::ScheduleEntry* entry : optim::schedules()) {
    const auto schedule = make_schedule(least_spec(*entry), kRun);
    EXPECT_EQ(entry->needs_metric, !schedule->metric().empty()) << entry->name;
  }
}

TEST(Schedules, RefuseNumbersThatAreNoneByTheirParametersName) {
  for (const optim::ScheduleEntry* entry : optim::schedules()) {
    for (const Param& param : entry->params) {
      if (param.type != "float") continue;
      for (const std::string value : {"nan", "inf"}) {
        const std::string error = test::refusal_of(
            [&] { make_schedule(concat(entry->name, ":", param.name, "=", value), kRun); });
        EXPECT_THAT(error, HasSubstr(concat("parameter \"", param.name, "\": a finite number")));
      }
    }
  }
}

TEST(Schedules, RefuseTheStateOfAnother) {
  EXPECT_THROW(make_schedule("cosine", kRun)->load_state(make_schedule("plateau", kRun)->state()),
               Error);
  EXPECT_THROW(make_schedule("plateau", kRun)->load_state(make_schedule("cosine", kRun)->state()),
               Error);
}

}  // namespace
}  // namespace muster
