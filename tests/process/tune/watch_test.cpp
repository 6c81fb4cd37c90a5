// `muster study watch` on a terminal, over a tuner that runs.
#include <csignal>

#include <gmock/gmock.h>

#include "tests/process/tune/shell_study.h"
#include "tests/support/on_terminal.h"

namespace muster::testing_process {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr unsigned short kColumns = 100, kRows = 30;

class StudyOnTerminal : public OnTerminal {
 public:
  explicit StudyOnTerminal(const std::vector<std::string>& args)
      : OnTerminal(args, {.columns = kColumns, .rows = kRows}) {}

  /// A row of the table: "  0  PAUSED".
  bool shows_trial(int number, const std::string& state) {
    return shows([&](const auto& screen) {
      for (size_t row = 5; row < kRows; ++row) {
        const std::string line(trim(screen.line(row)));
        if (line.starts_with(concat(number, ' ')) && line.find(state) != std::string::npos)
          return true;
      }
      return false;
    });
  }
};

class WatchedTuner : public ShellStudy {
 protected:
  /// Trials that report with checkpoints until they are told to end.
  std::string endless() {
    return study(
        concat("t=${MUSTER_RESUME_FROM##*/}; t=${t:-0}; echo attempt $MUSTER_TRIAL_ATTEMPT\n"
               "while :; do t=$((t + 1)); mkdir -p $MUSTER_CHECKPOINT_DIR/$t; ",
               program_,
               "report loss=$t step=$t --checkpoint $MUSTER_CHECKPOINT_DIR/$t || exit; done"),
        2);
  }

  template <class What>
  std::vector<tune::Event> events_of(int64_t trial) const {
    std::vector<tune::Event> found;
    for (const tune::Event& event : tune::read_events(storage(), "study")) {
      if (event.trial == trial && std::holds_alternative<What>(event.what)) found.push_back(event);
    }
    return found;
  }
};

TEST_F(WatchedTuner, IsPausedContinuedStoppedAndGivenATrialByKeys) {
  Launched tuner({"tune", endless()});
  ASSERT_TRUE(tuner.wait_for("trial 0 started"));
  StudyOnTerminal watch({"study", "watch", storage().string()});
  ASSERT_TRUE(watch.shows_trial(0, "RUNNING")) << watch.text();
  watch.type("gp");
  ASSERT_TRUE(watch.shows_trial(0, "PAUSED")) << watch.text();
  ASSERT_TRUE(watch.shows_trial(1, "RUNNING")) << "its slot is free\n" << watch.text();
  watch.type("p");
  ASSERT_TRUE(watch.shows("trial 0 goes on as soon as there is room")) << watch.text();
  watch.type("jxy");
  ASSERT_TRUE(watch.shows_trial(1, "PRUNED")) << watch.text();
  ASSERT_TRUE(watch.shows_trial(0, "RUNNING")) << watch.text();
  watch.type(concat("a", std::string(40, '\x7f'), "lr=2\r"));
  ASSERT_TRUE(watch.shows("uniform(0")) << watch.text();
  watch.type(
      "\x7f"
      "0.25\r");
  ASSERT_TRUE(watch.shows("a trial is added")) << watch.text();
  watch.type("gx");
  ASSERT_TRUE(watch.shows("stop trial 0 for good?")) << watch.text();
  watch.type("y");
  ASSERT_TRUE(watch.shows_trial(2, "0.25")) << watch.text();
  watch.type("q");
  EXPECT_EQ(watch.end(), 0);
  EXPECT_TRUE(watch.is_as_before());
  EXPECT_EQ(say({"study", "stop", storage().string()}).code, 0);
  EXPECT_EQ(tuner.wait().code, 130) << tuner.err();

  EXPECT_EQ(events_of<tune::PauseOrdered>(0).size(), 1);
  const auto starts = events_of<tune::AttemptStarted>(0);
  ASSERT_EQ(starts.size(), 2);
  EXPECT_FALSE(std::get<tune::AttemptStarted>(starts[1].what).from_checkpoint.empty());
  const tune::StudyCore core = replayed();
  EXPECT_EQ(core.trials()[1].state, tune::TrialState::kPruned);
  EXPECT_EQ(core.trials()[2].values[0], tune::Value(0.25));
}

TEST_F(WatchedTuner, IsOrderedAboutByCommandsAsWell) {
  Launched tuner({"tune", endless()});
  ASSERT_TRUE(tuner.wait_for("trial 0 started"));
  const std::string file = storage().string();
  EXPECT_THAT(say({"study", "pause", file, "--trial", "0"}).err, HasSubstr("trial 0 is paused at"));
  ASSERT_TRUE(tuner.wait_for("trial 1 started"));
  const Said again = say({"study", "pause", file, "--trial", "0"});
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.err, HasSubstr("it is paused"));
  EXPECT_EQ(say({"study", "stop", file, "--trial", "1"}).code, 0);
  ASSERT_TRUE(tuner.wait_for("all that is left is paused by a user"));
  EXPECT_THAT(say({"study", "show", file, "--trial", "0", "--json"}).out,
              AllOf(HasSubstr("\"by_user\":true"), HasSubstr("\"state\":\"PAUSED\"")));
  const Said bad = say({"study", "add", file, "lr=2"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_THAT(bad.err, HasSubstr("uniform(0"));
  EXPECT_EQ(say({"study", "add", file, "lr=0.5"}).code, 0);
  ASSERT_TRUE(tuner.wait_for("trial 2 started"));
  EXPECT_EQ(say({"study", "stop", file, "--trial", "2", "--trial", "0"}).code, 0);
  EXPECT_EQ(tuner.wait().code, 0) << tuner.err();
  EXPECT_EQ(say({"study", "continue", file, "--trial", "0"}).code, 2) << "nobody runs it";
  EXPECT_EQ(say({"study", "add", file, "lr=0.25"}).code, 0);
  EXPECT_THAT(say({"study", "show", file}).out, HasSubstr("waits for a tuner"));
}

TEST_F(WatchedTuner, LosesNobodysTerminalHoweverItEnds) {
  Launched tuner({"tune", study(kReport, 1)});
  EXPECT_EQ(tuner.wait().code, 0);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGSEGV}) {
    StudyOnTerminal watch({"study", "watch", storage().string()});
    ASSERT_TRUE(watch.shows_trial(0, "COMPLETE")) << watch.text();
    EXPECT_FALSE(watch.is_as_before());
    watch.signal(signal);
    EXPECT_EQ(watch.end(), signal == SIGSEGV ? -1 : 130);
    EXPECT_TRUE(watch.is_as_before()) << signal;
  }
  const Said none = say({"study", "watch", storage().string()});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("hint: muster study show "));
}

}  // namespace
}  // namespace muster::testing_process
