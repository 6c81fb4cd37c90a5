// How long a tuner waits for storage, by a clock that the test moves.
#include "muster/tune/run/patience.h"

#include <chrono>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Time = std::chrono::steady_clock::time_point;

/// Nothing runs; waiting takes the time that it may, and brings what the test has put in.
class IdleExecutor final : public Executor {
 public:
  void start(const AttemptPlan& /*plan*/) override {}
  std::vector<ExecutorEvent> wait(double timeout_s) override {
    now_s += timeout_s;
    return std::exchange(events, {});
  }
  void answer(uint64_t /*token*/, const Decision& /*decision*/) override {}
  void reject(uint64_t /*token*/, const std::string& /*why*/) override {}
  void stop(int64_t /*trial*/, std::string_view /*reason*/, bool /*kill*/) override {}
  std::string location(int64_t /*trial*/) const override { return ""; }

  double now_s = 0;
  std::vector<ExecutorEvent> events;
};

class PatienceTest : public ::testing::Test {
 protected:
  Patience patience(double limit_s) {
    return {executor_,
            limit_s,
            {.note = [this](const std::string& line) { notes_.push_back(line); },
             .stop =
                 [this](const std::string& why, bool kill) {
                   stops_.push_back({why, kill});
                 },
             .running = [this] { return running_; },
             .now =
                 [this] {
                   return Time(std::chrono::duration_cast<Time::duration>(
                       std::chrono::duration<double>(executor_.now_s)));
                 }}};
  }

  /// A try that fails when SQLite has waited for a lock for so long.
  void fail_after(double seconds) {
    ++tries_;
    executor_.now_s += seconds;
    throw environment_error({.refused = "cannot write study.db", .rule = "it is locked"});
  }

  IdleExecutor executor_;
  std::vector<std::string> notes_;
  std::vector<std::pair<std::string, bool>> stops_;
  std::set<int64_t> running_;
  int tries_ = 0;
};

// Each try waits for 10 s by itself, beside the second between tries: both count.
TEST_F(PatienceTest, IsOverAfterItsTimeHoweverLongATryTakes) {
  EXPECT_THROW(patience(60).run([&] { fail_after(10); }), Error);
  EXPECT_GE(executor_.now_s, 10 + 60);
  EXPECT_LE(executor_.now_s, 10 + 60 + 11) << "one more try at most";
  EXPECT_EQ(tries_, 7) << "11 s each";
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("trials wait; trying again for 1m00s")));
}

TEST_F(PatienceTest, OfNoneGivesUpAtTheFirstTry) {
  EXPECT_THROW(patience(0).run([&] { fail_after(0); }), Error);
  EXPECT_EQ(tries_, 1);
}

TEST_F(PatienceTest, EndsWithTheFirstTryThatHasWorked) {
  patience(60).run([&] {
    if (tries_ < 3) fail_after(1);
  });
  EXPECT_EQ(tries_, 3);
}

TEST_F(PatienceTest, HearsAWishToEndAtTheNextWaitAndWaitsForNothingIfNothingRuns) {
  executor_.events.push_back({.kind = ExecutorEvent::kInterrupt, .message = "SIGINT"});
  try {
    patience(600).run([&] { fail_after(10); });
    ADD_FAILURE() << "storage never came back";
  } catch (const Patience::Lost& lost) {
    EXPECT_EQ(lost.why, "SIGINT");
  }
  EXPECT_EQ(tries_, 1);
  EXPECT_THAT(stops_, ElementsAre(std::pair<std::string, bool>("SIGINT", false)));
}

TEST_F(PatienceTest, WaitsForWhatRunsAndKillsItAtASecondWish) {
  running_ = {7};
  Patience waiting = patience(30);
  for (int wish = 0; wish < 2; ++wish)
    executor_.events.push_back({.kind = ExecutorEvent::kInterrupt, .message = "SIGINT"});
  EXPECT_THROW(waiting.run([&] {
    if (tries_ == 3)
      executor_.events.push_back({.kind = ExecutorEvent::kEnded, .trial = 7, .message = "killed"});
    fail_after(1);
  }),
               Patience::Lost);
  EXPECT_EQ(tries_, 4) << "as long as it took the trial to end";
  EXPECT_THAT(stops_,
              ElementsAre(std::pair<std::string, bool>("SIGINT", false),
                          std::pair<std::string, bool>("SIGINT", true)));
}

}  // namespace
}  // namespace muster::tune
