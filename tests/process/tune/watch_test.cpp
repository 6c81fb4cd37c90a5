// `muster study watch` on a terminal, over a tuner that runs.
#include <csignal>
#include <functional>

#include <gmock/gmock.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <utmp.h>

#include "tests/process/tune/shell_study.h"
#include "tests/support/vt100.h"

namespace muster::testing_process {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr unsigned short kColumns = 100, kRows = 30;

/// `muster` with a terminal of its own.
class OnTerminal {
 public:
  explicit OnTerminal(const std::vector<std::string>& args) {
    winsize size{.ws_row = kRows, .ws_col = kColumns, .ws_xpixel = 0, .ws_ypixel = 0};
    int slave = -1;
    if (::openpty(&master_, &slave, nullptr, nullptr, &size) != 0) std::abort();
    slave_.reset(slave);
    ::tcgetattr(slave, &before_);
    std::vector<std::string> words{test::program_path("muster")};
    words.insert(words.end(), args.begin(), args.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::login_tty(slave);
      ::setenv("TERM", "vt100", 1);
      ::execv(argv[0], argv.data());
      ::_exit(126);
    }
  }
  ~OnTerminal() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    ::close(master_);
  }
  OnTerminal(const OnTerminal&) = delete;

  void type(std::string_view keys) {
    while (!keys.empty()) {
      const ssize_t put = ::write(master_, keys.data(), keys.size());
      if (put <= 0) std::abort();
      keys.remove_prefix(static_cast<size_t>(put));
    }
  }

  /// Until the screen is so; false after a minute.
  bool shows(const std::function<bool(const test::Vt100& screen)>& is_so) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!is_so(screen_)) {
      pollfd ready{master_, POLLIN, 0};
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
      if (::poll(&ready, 1, static_cast<int>(std::max<int64_t>(left.count(), 0))) <= 0)
        return false;
      char buffer[4096];
      const ssize_t got = ::read(master_, buffer, sizeof buffer);
      if (got <= 0) return false;
      screen_.feed({buffer, static_cast<size_t>(got)});
    }
    return true;
  }
  bool shows(const std::string& text) {
    return shows([&](const auto& screen) { return screen.text().find(text) != std::string::npos; });
  }
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

  /// Its exit code, when it has written all; -1: it was killed.
  int end() {
    int status = 0;
    while (::waitpid(pid_, &status, WNOHANG) == 0) {  // it may wait for its words to be read
      pollfd ready{master_, POLLIN, 0};
      char buffer[4096];
      if (::poll(&ready, 1, 10) > 0 && ::read(master_, buffer, sizeof buffer) <= 0) break;
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  bool is_as_before() const {
    termios now{};
    ::tcgetattr(slave_.get(), &now);
    return now.c_lflag == before_.c_lflag && now.c_iflag == before_.c_iflag &&
           now.c_oflag == before_.c_oflag;
  }
  void signal(int number) const { ::kill(pid_, number); }
  std::string text() const { return screen_.text(); }

 private:
  int master_ = -1;
  UniqueFd slave_;
  pid_t pid_ = -1;
  termios before_{};
  test::Vt100 screen_{kColumns, kRows};
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
  OnTerminal watch({"study", "watch", storage().string()});
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
}

TEST_F(WatchedTuner, LosesNobodysTerminalHoweverItEnds) {
  Launched tuner({"tune", study(kReport, 1)});
  EXPECT_EQ(tuner.wait().code, 0);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGSEGV}) {
    OnTerminal watch({"study", "watch", storage().string()});
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
