// Orders of a scheduler for paused trials: one goes on as another, one ends, and that no more come.
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tune/core/study_core.h"

#include "tests/support/error_of.h"
#include "tests/tune/core/core_by_hand.h"

namespace muster::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Pauses each trial at t = 2; then does what the test puts into `orders`. Writes calls down.
struct Commander final : Scheduler {
  struct Board {
    std::vector<Promotion> orders;
    std::vector<std::string> calls;
  };
  explicit Commander(Board& board) : board_(board) {}

  void on_start(int64_t number, const Point& point) override {
    board_.calls.push_back(concat("start ", number, ' ', point.size()));
  }
  Decision on_report(int64_t /*number*/, int64_t t, double /*score*/) override {
    return t == 2 ? Decision{Action::kPause, "paused at 2"} : Decision{};
  }
  void on_checkpoint(int64_t number, int64_t t) override {
    board_.calls.push_back(concat("checkpoint ", number, ' ', t));
  }
  void on_resume(int64_t number, const Point& point) override {
    board_.calls.push_back(concat("resume ", number, ' ', shortest(point[0])));
  }
  void on_end(int64_t number, TrialState state) override {
    board_.calls.push_back(concat("end ", number, ' ', optuna_name(state)));
  }
  std::optional<Promotion> promote() override {
    if (board_.orders.empty()) return std::nullopt;
    const Promotion order = board_.orders.front();
    board_.orders.erase(board_.orders.begin());
    return order;
  }
  void no_more_trials() override { board_.calls.emplace_back("no more"); }
  bool pauses() const override { return true; }
  std::string status() const override { return "commander"; }

 private:
  Board& board_;
};

using Board = Commander::Board;

StudySpec commanded(Board& board, int64_t samples) {
  StudySpec spec = spec_with(samples, "commander");
  spec.space = Space({{"lr", loguniform(1e-4, 1e-1)}, {"layers", randint(1, 9)}});
  spec.own_scheduler = [&board](const SchedulerContext& context) {
    EXPECT_EQ(context.space.dimensions().size(), 2u);
    return std::make_unique<Commander>(board);
  };
  return spec;
}

/// Runs trial `number` from t to 2, where it pauses.
void run_to_pause(StudyCore& core, int64_t number, double now_s) {
  for (int64_t t = 1; t <= 2; ++t)
    core.report(
        number, loss(1. / static_cast<double>(number + t), t, concat("c", number, '/', t)), now_s);
  core.ended(number, Failure::kNone, "", now_s);
}

/// Two paused trials of two, and what the scheduler heard so far forgotten.
StudyCore two_paused(Board& board) {
  StudyCore core(commanded(board, 2));
  for (int64_t number = 0; number < 2; ++number) run_to_pause(core, start(core), 1);
  board.calls.clear();
  return core;
}

/// The log of `core` replayed into another, whose scheduler gives the same orders.
StudyCore replayed(StudyCore& core,
                   Board& board,
                   std::vector<Scheduler::Promotion> orders,
                   std::vector<Event> log) {
  board.orders = std::move(orders);
  board.calls.clear();
  StudyCore again(core.spec());
  for (const Event& event : log) {
    // As it comes out of storage.
    again.replay(
        event_from(event.id, event.time_s, event.trial, kind_of(event), payload_text(event)));
  }
  return again;
}

TEST(StudyOrders, ATrialGoesOnWithAnothersCheckpointAndOtherValues) {
  Board board;
  StudyCore core = two_paused(board);
  const Scheduler::Promotion order{
      .number = 1, .reason = "exploits trial 0", .donor = 0, .point = {0.02, 5}};
  board.orders = {order};
  EXPECT_EQ(start(core, 2), 1);
  EXPECT_EQ(trial(core, 1).checkpoint, "c0/2");
  EXPECT_EQ(trial(core, 1).checkpoint_t, 2);
  EXPECT_EQ(trial(core, 1).values, (Values{0.02, 5}));
  EXPECT_EQ(trial(core, 1).attempt, 2);
  EXPECT_THAT(board.calls, ElementsAre("checkpoint 1 2", "resume 1 0.02"));
  core.report(1, loss(0.1, 3, "c1/3"), 3);
  EXPECT_EQ(trial(core, 1).checkpoint, "c1/3");

  const std::vector<Event> log = core.take_events();
  const StudyCore again = replayed(core, board, {order}, log);
  EXPECT_EQ(trial(again, 1).values, trial(core, 1).values);
  EXPECT_EQ(trial(again, 1).point, trial(core, 1).point);
  EXPECT_EQ(trial(again, 1).checkpoint, "c1/3");
}

TEST(StudyOrders, ReportsUpToWhereTheTrialHadComeArePassedOver) {
  Board board;
  StudyCore core = two_paused(board);
  board.orders = {{.number = 0, .reason = "as it is"},
                  {.number = 1, .reason = "exploits trial 0", .donor = 0}};
  EXPECT_EQ(start(core, 2), 0);
  core.report(0, loss(0.5, 3, "c0/3"), 2);
  core.report(0, loss(0.4, 5), 2);
  core.ended(0, Failure::kCrash, "", 2);
  EXPECT_EQ(start(core, 3), 1);
  core.take_events();
  // Its donor was at 3; without steps its reports count on from there.
  EXPECT_EQ(core.report(1, loss(0.3), 3).action, Action::kContinue);
  EXPECT_EQ(trial(core, 1).last_t, 4);
}

TEST(StudyOrders, ATrialEndsAndTheNextOrderIsAskedForAtOnce) {
  Board board;
  StudyCore core = two_paused(board);
  const std::vector<Scheduler::Promotion> orders = {
      {.number = 0, .reason = "not among the best", .end = true},
      {.number = 1, .reason = "has had all", .end = true, .complete = true}};
  board.orders = orders;
  EXPECT_EQ(core.next(2).kind, StudyCore::Next::kFinished);
  EXPECT_EQ(trial(core, 0).state, TrialState::kPruned);
  EXPECT_EQ(trial(core, 0).reason, "not among the best");
  EXPECT_EQ(trial(core, 1).state, TrialState::kComplete);
  EXPECT_THAT(board.calls, ElementsAre("end 0 PRUNED", "end 1 COMPLETE"));
  const std::vector<Event> log = core.take_events();
  const StudyCore again = replayed(core, board, orders, log);
  EXPECT_EQ(trial(again, 1).state, TrialState::kComplete);
  EXPECT_TRUE(board.orders.empty());
}

TEST(StudyOrders, AnotherOrderThanTheStoredOneIsAnInternalError) {
  Board board;
  StudyCore core = two_paused(board);
  const Scheduler::Promotion order{
      .number = 1, .reason = "exploits trial 0", .donor = 0, .point = {0.02, 5}};
  board.orders = {order};
  start(core, 2);
  const std::vector<Event> log = core.take_events();
  std::vector<std::pair<Scheduler::Promotion, std::string>> others(5, {order, ""});
  others[0] = {{.number = 0, .reason = "it"}, "trial 1 goes on"};
  others[1].first.donor = 1, others[1].second = "donor 0";
  others[2].first.point = {}, others[2].second = "its point";
  others[3].first.point[0] = 0.03, others[3].second = "another point";
  others[4].first.end = true, others[4].second = "trial 1 goes on";
  for (const auto& [other, words] : others) {
    EXPECT_THAT(test::error_of([&, &other = other] { replayed(core, board, {other}, log); }),
                HasSubstr(words));
  }
  Scheduler::Promotion rounded = order;
  rounded.point[0] = std::nextafter(0.02, 1);  // of another libm
  EXPECT_EQ(trial(replayed(core, board, {rounded}, log), 1).point[0], 0.02);
}

TEST(StudyOrders, OnesThatMakeNoSenseAreInternalErrorsThatNameThem) {
  const auto refused = [](const Scheduler::Promotion& order) {
    Board board;
    StudyCore core = two_paused(board);
    board.orders = {order};
    return test::error_of([&] { core.next(2); });
  };
  EXPECT_THAT(refused({.number = 7, .reason = "x"}), HasSubstr("it names a trial that is paused"));
  EXPECT_THAT(refused({.number = 0, .reason = "x", .donor = 9}),
              HasSubstr("trial 9 has a checkpoint"));
  EXPECT_THAT(refused({.number = 0, .reason = "x", .point = {0.01}}), HasSubstr("each dimension"));
  EXPECT_THAT(refused({.number = 0, .reason = "x", .point = {0.01, 17}}),
              HasSubstr("layers = 17 is none of randint(1, 9)"));
}

TEST(StudyOrders, ThatNoMoreTrialsComeIsSaidOnceAndStoredAndAgainWhenSomeCameAfterAll) {
  Board board;
  StudyCore core(commanded(board, 1));
  start(core);
  EXPECT_EQ(core.next(0).kind, StudyCore::Next::kWait);
  EXPECT_EQ(core.next(0).kind, StudyCore::Next::kWait);
  EXPECT_THAT(board.calls, ElementsAre("start 0 2", "no more"));
  core.offer({{.partial = {kNan, kNan}, .reason = "by hand"}});
  EXPECT_EQ(start(core), 1);
  core.next(0);
  EXPECT_THAT(board.calls, ElementsAre("start 0 2", "no more", "start 1 2", "no more"));
  const std::vector<Event> log = core.take_events();
  replayed(core, board, {}, log);
  EXPECT_THAT(board.calls, ElementsAre("start 0 2", "no more", "start 1 2", "no more"));
}

TEST(StudyOrders, ASearcherThatWaitsForWhatIsPausedDoesNotKeepTheSchedulerWaiting) {
  Board board;
  StudySpec spec = commanded(board, 4);
  spec.searcher = "random:max_concurrent=2,batch=true";
  StudyCore core(spec);
  for (int64_t number = 0; number < 2; ++number) run_to_pause(core, start(core), 1);
  board.calls.clear();
  board.orders = {};
  // Nothing is ordered even then: they are given up, and the next batch starts.
  EXPECT_EQ(start(core, 2), 2);
  EXPECT_THAT(board.calls, ElementsAre("no more", "end 0 PRUNED", "end 1 PRUNED", "start 2 2"));
}

TEST(StudyOrders, LogsOfOlderVersionsSayInWordsWhatHasAFieldNow) {
  // As version 0.4 wrote them: "asked" in the reason, and a note of a trial that is to stop.
  const StudySpec spec = spec_with(3);
  StudyCore made(spec);
  start(made);
  std::vector<Event> log = made.take_events();
  log.resize(1);
  const std::string asked = R"({"attempt":1,"reason":"asked"})";
  log.push_back(event_from(2, 1, 0, "attempt_started", asked));
  log.push_back(event_from(3, 2, 0, "tuner", R"({"text":"stopped by `muster study stop`"})"));
  StudyCore core(spec);
  for (const Event& event : log) core.replay(event);
  EXPECT_TRUE(core.is_asked(0));
  EXPECT_EQ(core.report(0, loss(1), 3).action, Action::kStop);
  EXPECT_EQ(trial(core, 0).reason, "stopped by `muster study stop`");
}

}  // namespace
}  // namespace muster::tune
