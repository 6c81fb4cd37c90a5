// A tuner goes on while its searcher thinks.
#include <atomic>
#include <iterator>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "muster/tune/run/thinking.h"
#include "muster/tune/run/tuner.h"

namespace muster::tune {
namespace {

/// Trials that report at every wait: the first six times, each other once. What happens is counted.
class ScriptedTrials final : public Executor {
 public:
  explicit ScriptedTrials(std::atomic<int>& answers) : answers_(answers) {}

  void start(const AttemptPlan& plan) override { left_[plan.trial] = plan.trial == 0 ? 6 : 1; }
  std::vector<ExecutorEvent> wait(double timeout_s) override {
    EXPECT_FALSE(left_.empty() && timeout_s < 0) << "for ever";
    std::vector<ExecutorEvent> events;
    for (auto trial = left_.begin(); trial != left_.end();) {
      const bool is_over = trial->second-- == 0;
      ExecutorEvent event{.kind = is_over ? ExecutorEvent::kEnded : ExecutorEvent::kReport,
                          .trial = trial->first,
                          .token = 1};
      event.report.metrics = {{"loss", 1}};
      events.push_back(event);
      trial = is_over ? left_.erase(trial) : std::next(trial);
    }
    return events;
  }
  void answer(uint64_t /*token*/, const Decision& /*decision*/) override {
    ++answers_;
    answers_.notify_all();
  }
  void reject(uint64_t /*token*/, const std::string& why) override { ADD_FAILURE() << why; }
  void stop(int64_t /*trial*/, std::string_view /*reason*/, bool /*kill*/) override {}
  std::string location(int64_t /*trial*/) const override { return ""; }

 private:
  std::atomic<int>& answers_;
  std::map<int64_t, int> left_;  // reports until they end
};

/// Thinks of the second trial until three reports were answered.
class Ponderer final : public Searcher {
 public:
  explicit Ponderer(std::atomic<int>& answers) : answers_(answers) {}
  Suggestion suggest(int64_t number, const Point& partial) override {
    for (int seen = answers_; number == 1 && seen < 3; seen = answers_) answers_.wait(seen);
    return {.point = keep_fixed({0.5}, partial)};
  }

 private:
  std::atomic<int>& answers_;
};

TEST(SlowSearcherInATuner, ReportsAreAnsweredWhileItThinks) {
  std::atomic<int> answers = 0;
  StudySpec spec{.name = "slow", .metric = "loss", .mode = Mode::kMin};
  spec.space = Space({{"x", uniform(0, 1)}});
  spec.num_samples = 4;
  spec.max_concurrent = 2;
  spec.searcher = "ponderer";
  spec.own_searcher = [&](const SearcherContext&) { return std::make_unique<Ponderer>(answers); };
  std::vector<Event> log;
  Study study(spec, &wall_clock_s, [&](const StudyCore&, std::span<const Event> events) {
    log.insert(log.end(), events.begin(), events.end());
  });
  ScriptedTrials executor(answers);
  ResourcePool pool({.cpu = 8}, {.cpu = 1});
  const TunerOutcome outcome = run_study(study, spec, executor, pool);
  EXPECT_FALSE(outcome.interrupted);
  EXPECT_EQ(answers, 6 + 3);
  int64_t known = -1;  // by the one that was thought about for long
  for (const Event& event : log) {
    const auto* added = std::get_if<TrialAdded>(&event.what);
    if (added != nullptr && event.trial == 1) known = added->known;
  }
  EXPECT_EQ(known, 2) << "trial 0 was added, and started";
}

TEST(Thinker, SaysWhetherItIsDoneAndWaitsAtItsEnd) {
  std::atomic<bool> may_end = false, has_ended = false;
  {
    Thinker thinker;
    while (!thinker.begin([] {})) {  // a busy machine
      while (thinker.is_busy()) std::this_thread::yield();
    }
    EXPECT_FALSE(thinker.is_busy());
    EXPECT_FALSE(thinker.begin([&] {
      may_end.wait(false);
      has_ended = true;
    }));
    EXPECT_TRUE(thinker.is_busy());
    may_end = true;
    may_end.notify_all();
  }
  EXPECT_TRUE(has_ended);
}

}  // namespace
}  // namespace muster::tune
