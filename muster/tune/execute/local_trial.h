// One attempt of a trial as a process of this machine: its output, its end. Private to the room.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/launch/io/event_loop.h"
#include "muster/launch/io/line_splitter.h"
#include "muster/launch/io/pipe.h"
#include "muster/launch/process/nursery.h"
#include "muster/tune/execute/trial_end.h"
#include "muster/tune/execute/trial_log.h"
#include "muster/tune/trial/wire.h"

namespace muster::tune {

using TuneClock = std::chrono::steady_clock;

/// What is to be run.
struct LocalTrialStart {
  int64_t trial = 0;
  int32_t attempt = 1;
  std::filesystem::path program;
  std::vector<std::string> argv;
  std::vector<std::string> environment;
  std::filesystem::path working_folder;  ///< empty: the tuner's
  std::filesystem::path folder;          ///< for stdout.log and stderr.log
  std::filesystem::path report_file;     ///< made as a FIFO, removed at the end
  double trial_timeout_s = 0, report_timeout_s = 0, kill_grace_s = 5;
};

/// Note [Ends of a trial]
///
///   kRunning ──told to end──▶ kAsked ──grace over──▶ kTerm ──kill grace over──▶ kKill ──▶ given up
///      └────────────its own process ends─────────────▶│ (for what it left running)
///
/// From any of them the warden's word that no process is left leads to the end, once all that was
/// written has been read. A timeout goes to kTerm at once. One thread: that of the loop.
class LocalTrial {
 public:
  static constexpr size_t kMostOpen = 64;  ///< unanswered one-way reports; then nothing is read

  class Handler {
   public:
    virtual ~Handler() = default;
    virtual void on_one_way_report(LocalTrial& trial, Report report) = 0;
    virtual void on_note(int64_t trial, const std::string& text) = 0;
    /// No process is left. drain() has still to be called, until it is true.
    virtual void on_no_process_left(LocalTrial& trial) = 0;
  };

  /// Starts. Throws an environment error if that cannot be tried at all.
  LocalTrial(const LocalTrialStart& start,
             launch::Nursery& nursery,
             launch::EventLoop& loop,
             const sigset_t& signal_mask,
             int null_fd,
             Handler& handler);
  /// Kills what is left.
  ~LocalTrial();
  LocalTrial(const LocalTrial&) = delete;
  LocalTrial& operator=(const LocalTrial&) = delete;

  int64_t trial() const { return start_.trial; }
  int32_t attempt() const { return start_.attempt; }
  int pid() const { return pid_; }  ///< -1: not known yet

  /// It was told to pause or to stop: SIGTERM so long from now. The first call counts.
  void ask_to_end(double grace_s);
  bool asked() const { return end_.asked; }
  bool failed() const { return end_.failure != Failure::kNone; }
  void kill();
  bool no_process_left() const { return gone_; }

  /// A report came in. The report timeout waits until all are answered, since the trial may be
  /// waiting for us, and starts anew then.
  void reported();
  void answered(bool one_way);

  /// When on_time() is to be called; nothing: never.
  std::optional<TuneClock::time_point> deadline() const;
  void on_time(TuneClock::time_point now);

  /// After the last process: reads what is there. False if answers are outstanding before the rest
  /// can be taken. Call until true, then take end().
  bool drain();
  TrialEnd& end() { return end_; }

 private:
  enum class Stage { kRunning, kAsked, kTerm, kKill, kGivenUp };

  struct Output {
    launch::Pipe pipe;
    launch::LineSplitter lines;
    TrialLog log;
    bool closed = false;
  };

  /// It failed, though its process does not know: SIGTERM now. The first call counts.
  void fail(Failure failure, const std::string& why);
  void make_report_file();
  void on_warden();
  void on_warden_report(const launch::WardenReport& report);
  void on_main_end(int wait_status);
  void await_main();
  void end_if_unheard();
  void set_gone();
  launch::ReadResult read_output(Output& output, bool is_stderr);
  launch::ReadResult read_reports();
  void on_output_line(bool is_stderr, std::string_view line);
  /// `cut`: its line was longer than kMaxLineBytes.
  void on_report_line(std::string_view line, std::string_view where, bool cut = false);
  void refresh();
  void arm_report_timeout();
  void enter(Stage stage, double seconds);

  LocalTrialStart start_;
  launch::EventLoop& loop_;
  Handler& handler_;
  Output out_, err_;
  UniqueFd report_fd_;
  LineBuffer report_lines_;
  std::unique_ptr<launch::Warden> warden_;
  UniqueFd process_;  ///< of the trial itself, once its warden was killed
  int pid_ = -1;
  Stage stage_ = Stage::kRunning;
  bool main_ended_ = false, gone_ = false, paused_ = false;
  bool awaits_outputs_ =
      false;  ///< its warden was killed before it said which process it had begun
  size_t open_ = 0, open_one_way_ = 0;  // unanswered reports
  TrialEnd end_;
  std::optional<TuneClock::time_point> stage_due_, trial_due_, report_due_;
};

}  // namespace muster::tune
