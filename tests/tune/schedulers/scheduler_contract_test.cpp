// What every scheduler keeps to, whoever added it. Runs over the table, over ASHA's other types,
// and over the worked example of docs/add-a-scheduler.md.
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/text.h"
#include "muster/tune/schedule/scheduler.h"

#include "tests/support/error_of.h"
#include "tests/support/numbers.h"

namespace muster::tune {

namespace worked {
extern const SchedulerEntry slack_entry;  // worked_scheduler_test.cpp
}

namespace {

using test::refusal_of;
using ::testing::HasSubstr;
using worked::slack_entry;

using test::kInf;
using test::kNan;

/// Every entry with its defaults, and what more of them has another rule.
std::vector<std::string> specs() {
  std::vector<std::string> all = schedulers().names();
  // Unless a reader of the guide has added it to the table.
  if (!schedulers().find(slack_entry.name)) all.emplace_back(slack_entry.name);
  all.emplace_back("asha:variant=promotion,reduction_factor=2,max_t=20");
  all.emplace_back("asha:ray_compat=true,brackets=2");
  all.emplace_back("asha:brackets=3,stop_last_trials=false");
  return all;
}

const Space& contract_space() {
  static const Space space(std::vector<Parameter>{
      {.name = "lr", .domain = loguniform(1e-4, 1e-1)},
      {.name = "layers", .domain = randint(1, 9)},
      {.name = "optimizer", .domain = choice({"adam", "sgd"})},
      {.name = "momentum", .domain = uniform(0.8, 0.99), .when = "optimizer == 'sgd'"}});
  return space;
}

Point point_of_trial(int64_t number) {
  return contract_space().with_conditions(contract_space().draw({}, 4, number));
}

class SchedulerContract : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Scheduler> make(Mode mode = Mode::kMax, int64_t planned = 60) const {
    const SchedulerContext context{.seed = 3,
                                   .mode = mode,
                                   .metric = "loss",
                                   .space = contract_space(),
                                   .planned_trials = planned};
    if (GetParam() == slack_entry.name && !schedulers().find(GetParam()))
      return slack_entry.make(context, {});
    return make_scheduler(GetParam(), context);
  }
};

/// A study of `trials` trials with four slots on a scheduler: learning curves with noise, a score
/// that is not finite now and then, an end of its own or a failure now and then. Keeps the rules of
/// StudyCore, checks what must hold at every call, and writes every answer down.
class Study {
 public:
  Study(Scheduler& scheduler, unsigned seed, int64_t trials)
      : scheduler_(scheduler), generator_(seed), trials_(trials) {}

  std::vector<std::string> run() {
    while (true) {
      while (running_.size() < 4 && start()) {
      }
      if (running_.empty()) break;
      report(*std::next(running_.begin(), below(static_cast<int64_t>(running_.size()))));
    }
    for (const int64_t number : std::set(paused_)) {
      scheduler_.on_end(number, TrialState::kPruned);
      say("give up ", number);
    }
    return log_;
  }
  const std::map<std::string, int>& counts() const { return counts_; }

 private:
  bool start() {
    scheduler_.status();
    if (obey()) return true;
    if (next_ < trials_) {
      last_said_ = false;
      points_[next_] = point_of_trial(next_);
      scheduler_.on_start(next_, points_[next_]);
      running_.insert(next_++);
      return true;
    }
    if (last_said_ || !scheduler_.pauses()) return false;
    last_said_ = true;
    scheduler_.no_more_trials();
    return obey();
  }

  /// Carries orders out, up to the first trial that goes on.
  bool obey() {
    while (const auto order = scheduler_.promote()) {
      const int64_t number = order->number;
      EXPECT_EQ(paused_.erase(number), 1U) << number << " was not paused";
      EXPECT_FALSE(order->reason.empty());
      say(order->end ? "ended " : "promoted ", number, ' ', order->reason);
      ++counts_[order->end ? "ended" : "promoted"];
      if (order->end) {
        scheduler_.on_end(number, order->complete ? TrialState::kComplete : TrialState::kPruned);
        continue;
      }
      send_on(*order);
      return true;
    }
    return false;
  }

  void send_on(const Scheduler::Promotion& order) {
    const int64_t number = order.number;
    if (order.donor >= 0) {
      EXPECT_TRUE(checkpoint_t_.contains(order.donor)) << order.donor << " has no checkpoint";
      say("as ", order.donor);
      checkpoint_t_[number] = checkpoint_t_[order.donor];
      scheduler_.on_checkpoint(number, checkpoint_t_[number]);
    }
    if (!order.point.empty()) {
      const Space& space = contract_space();
      EXPECT_EQ(space.outside(order.point), std::nullopt);
      points_[number] = space.with_conditions(space.draw(order.point, 4, number));
    }
    running_.insert(number);
    scheduler_.on_resume(number, points_[number]);
  }

  void report(int64_t number) {
    int64_t& t = t_[number];
    t += below(5) == 0 ? 1 + below(5) : 1;
    const double metric = score(number, t);
    if (scheduler_.pauses() || below(3) == 0) {  // who is paused has a checkpoint
      checkpoint_t_[number] = t;
      scheduler_.on_checkpoint(number, t);
    }
    const Decision decision = scheduler_.on_report(number, t, metric);
    say(number, ' ', t, ' ', name_of(decision.action), ' ', decision.reason);
    ++counts_[std::string(name_of(decision.action))];
    EXPECT_EQ(decision.reason.empty(), decision.action == Action::kContinue);
    EXPECT_TRUE(decision.action == Action::kStop || !decision.complete);
    if (decision.action == Action::kPause) {
      EXPECT_TRUE(scheduler_.pauses());
      running_.erase(number);
      paused_.insert(number);
      scheduler_.on_pause(number);
    } else if (decision.action == Action::kStop) {
      end(number, decision.complete ? TrialState::kComplete : TrialState::kPruned);
    } else if (below(60) == 0 || t > 150) {
      end(number, below(2) == 0 ? TrialState::kComplete : TrialState::kFailed);
    }
  }

  void end(int64_t number, TrialState state) {
    scheduler_.on_end(number, state);
    running_.erase(number);
  }

  /// In steps of 0.01, so that equal scores come up.
  double score(int64_t number, int64_t t) {
    const int64_t chance = below(40);
    const double quality = static_cast<double>(number * 7919 % 97) / 97;
    const double noise = static_cast<double>(below(21) - 10) / 100;
    if (chance == 0) return kNan;
    if (chance == 1) return below(2) == 0 ? kInf : -kInf;
    const double value = quality * (1 - std::exp(-static_cast<double>(t) / 5)) + noise;
    return std::round(value * 100) / 100;
  }

  int64_t below(int64_t n) { return static_cast<int64_t>(generator_()) % n; }

  template <class... Parts>
  void say(const Parts&... parts) {
    log_.push_back(concat(parts...));
  }

  Scheduler& scheduler_;
  std::mt19937 generator_;
  int64_t trials_, next_ = 0;
  std::set<int64_t> running_, paused_;
  bool last_said_ = false;
  std::map<int64_t, int64_t> t_, checkpoint_t_;
  std::map<int64_t, Point> points_;
  std::vector<std::string> log_;
  std::map<std::string, int> counts_;
};

TEST_P(SchedulerContract, TheSameCallsGiveTheSameAnswers) {
  for (const unsigned seed : {1U, 2U, 3U}) {
    const auto one = make(), same = make();
    EXPECT_EQ(Study(*one, seed, 60).run(), Study(*same, seed, 60).run());
    EXPECT_EQ(one->status(), same->status());
  }
}

/// "12 4 stop stopped at rung …" without the words of the reason.
std::vector<std::string> verdicts(const std::vector<std::string>& log) {
  std::vector<std::string> out;
  for (const std::string& line : log) {
    const auto words = split(line, ' ');
    out.push_back(join(std::span(words).first(std::min<size_t>(3, words.size())), " "));
  }
  return out;
}

TEST_P(SchedulerContract, MinimisingIsMaximisingMirrored) {
  const auto max = make(Mode::kMax), min = make(Mode::kMin);
  const auto up = Study(*max, 5, 60).run();
  const auto down = Study(*min, 5, 60).run();
  EXPECT_EQ(verdicts(up), verdicts(down)) << "scores are the same";
}

TEST_P(SchedulerContract, TheFirstTrialIsNotPrunedWhileItIsAlone) {
  const auto scheduler = make();
  scheduler->on_start(0, point_of_trial(0));
  for (int64_t t = 1; t <= 200; ++t) {
    const Decision decision = scheduler->on_report(0, t, static_cast<double>(t) / 200);
    ASSERT_TRUE(decision.action != Action::kStop || decision.complete) << decision.reason;
    if (decision.action != Action::kContinue) break;
  }
}

TEST_P(SchedulerContract, WhateverIsReportedTheStudyEnds) {
  const auto scheduler = make(Mode::kMax, 200);
  Study study(*scheduler, 11, 200);
  study.run();
  EXPECT_GT(study.counts().at("continue"), 100);
  // Some of those that it pauses go on, or all that it pauses have had their turn.
  if (study.counts().contains("pause")) {
    EXPECT_GT(study.counts().at("promoted"), 10);
  }
}

TEST_P(SchedulerContract, ATrialOfNothingButNanIsBorneAndGoesOnAsAnotherOrNotAtAll) {
  const auto scheduler = make(Mode::kMax, 5);
  for (int64_t number = 0; number < 5; ++number) {
    scheduler->on_start(number, point_of_trial(number));
    for (int64_t t = 1; t < 40; ++t) {
      scheduler->on_checkpoint(number, t);
      const Decision decision = scheduler->on_report(number, t, kNan);
      if (decision.action == Action::kPause) scheduler->on_pause(number);
      if (decision.action != Action::kContinue) break;
    }
  }
  // All are alike: whoever is named may go on, as long as that comes to an end.
  scheduler->no_more_trials();
  for (int i = 0; i < 5; ++i) {
    const auto order = scheduler->promote();
    if (!order) break;
    EXPECT_FALSE(order->reason.empty());
  }
  for (int64_t number = 0; number < 5; ++number) scheduler->on_end(number, TrialState::kFailed);
  EXPECT_EQ(scheduler->promote(), std::nullopt);
}

TEST_P(SchedulerContract, ThatNoMoreTrialsComeIsBorneAtAnyTimeAndMoreThanOnce) {
  const auto scheduler = make();
  scheduler->no_more_trials();
  scheduler->no_more_trials();
  EXPECT_EQ(scheduler->promote(), std::nullopt) << "nobody is paused";
  scheduler->on_start(0, point_of_trial(0));
  scheduler->on_report(0, 1, 0.5);
  scheduler->on_end(0, TrialState::kComplete);
  scheduler->no_more_trials();
  EXPECT_EQ(scheduler->promote(), std::nullopt);
}

TEST_P(SchedulerContract, AStudyMayBeOfAnyNumberOfTrialsAndOfNoneThatIsKnown) {
  for (const int64_t planned : {1, 2, 7, -1}) {
    const auto scheduler = make(Mode::kMax, planned);
    Study study(*scheduler, 2, planned < 0 ? 40 : planned);
    study.run();
  }
}

TEST_P(SchedulerContract, TimesOfATrialRise) {
  const auto scheduler = make();
  scheduler->on_start(7, point_of_trial(7));
  scheduler->on_report(7, 2, 0.5);
  for (const int64_t t : {2, 1}) {
    const std::string refusal = refusal_of([&] { scheduler->on_report(7, t, 0.5); });
    EXPECT_THAT(refusal, HasSubstr("a report of trial 7: its time is above the one before, 2"));
    EXPECT_THAT(refusal, HasSubstr(concat("t=", t)));
  }
}

TEST_P(SchedulerContract, ATrialThatEndedIsForgotten) {
  const auto scheduler = make();
  for (int round = 0; round < 3; ++round) {
    scheduler->on_start(0, point_of_trial(0));
    for (int64_t t = 1; t < 4; ++t) {
      if (scheduler->on_report(0, t, 0.5).action != Action::kContinue) break;
    }
    scheduler->on_end(0, TrialState::kComplete);
    scheduler->on_end(0, TrialState::kComplete);  // no trial: nothing happens
  }
  EXPECT_EQ(scheduler->promote(), std::nullopt);
}

TEST_P(SchedulerContract, AnUnknownParameterIsRefusedByName) {
  const std::string name = parse_spec(GetParam()).name;
  const SchedulerEntry* found = schedulers().find(name);
  const SchedulerEntry& entry = found != nullptr ? *found : slack_entry;
  EXPECT_THAT(refusal_of([&] {
                entry.make({}, {{"no_such_parameter", "1"}});
              }),
              HasSubstr("scheduler " + name + " has no parameter"));
  EXPECT_FALSE(entry.help.empty());
  for (const Param& param : entry.params) EXPECT_FALSE(param.help.empty()) << param.name;
}

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name;
  for (const char c : info.param) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Table, SchedulerContract, ::testing::ValuesIn(specs()), test_name);

}  // namespace
}  // namespace muster::tune
