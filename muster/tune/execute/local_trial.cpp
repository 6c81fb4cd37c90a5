#include "muster/tune/execute/local_trial.h"

#include <algorithm>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "muster/base/duration.h"
#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/launch/process/program.h"

namespace muster::tune {
namespace {

// Per turn and stream, so that a flood of one trial does not starve the others.
constexpr size_t kTrialReadBytes = 64 << 10;
constexpr size_t kLetter = 4;  // bytes of one at most: long lines are cut between letters
constexpr size_t kLastLines = 20;
constexpr size_t kLastLineBytes = 500;
// A process that SIGKILL has not ended by then hangs in the kernel.
constexpr double kReapS = 5;

std::optional<TuneClock::time_point> after(double seconds) {
  return TuneClock::now() + bounded_wait(seconds);
}

int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(TuneClock::now().time_since_epoch())
      .count();
}

std::span<char> read_buffer() {
  static thread_local std::vector<char> buffer(kTrialReadBytes);
  return buffer;
}

}  // namespace

LocalTrial::LocalTrial(const LocalTrialStart& start,
                       launch::Nursery& nursery,
                       launch::EventLoop& loop,
                       const sigset_t& signal_mask,
                       int null_fd,
                       Handler& handler)
    : start_(start),
      loop_(loop),
      handler_(handler),
      out_{.pipe = launch::Pipe::make(), .log = TrialLog(start.folder / "stdout.log")},
      err_{.pipe = launch::Pipe::make(), .log = TrialLog(start.folder / "stderr.log")} {
  make_report_file();
  const launch::RankStart rank{.environment = start.environment,
                               .stdin_fd = null_fd,
                               .stdout_fd = out_.pipe.write_end.get(),
                               .stderr_fd = err_.pipe.write_end.get(),
                               .folder = start.working_folder.string()};
  warden_.reset(new launch::Warden(nursery.start(start.program, start.argv, rank, &signal_mask)));
  out_.pipe.write_end.reset();
  err_.pipe.write_end.reset();
  loop_.add(out_.pipe.read_end.get(), [this] {
    read_output(out_, false);
    end_if_unheard();
  });
  loop_.add(err_.pipe.read_end.get(), [this] {
    read_output(err_, true);
    end_if_unheard();
  });
  if (report_fd_) loop_.add(report_fd_.get(), [this] { read_reports(); });
  loop_.add(warden_->fd(), [this] { on_warden(); });
  if (start_.trial_timeout_s > 0) trial_due_ = after(start_.trial_timeout_s);
  arm_report_timeout();
}

LocalTrial::~LocalTrial() {
  for (const Output* output : {&out_, &err_}) loop_.forget(output->pipe.read_end.get());
  if (report_fd_) loop_.forget(report_fd_.get());
  if (warden_) loop_.forget(warden_->fd());
  if (process_) loop_.forget(process_.get());
  if (!start_.report_file.empty()) ::unlink(start_.report_file.c_str());
}

/// Open for both, so that writers come and go without an end-of-file.
void LocalTrial::make_report_file() {
  if (start_.report_file.empty()) return;
  ::unlink(start_.report_file.c_str());  // of a start of this attempt that failed halfway
  if (::mkfifo(start_.report_file.c_str(), 0600) == 0)
    report_fd_.reset(::open(start_.report_file.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (report_fd_) return;
  throw environment_error({.refused = "cannot make the pipe " + start_.report_file.string(),
                           .rule = errno_text(errno)});
}

// ---- The process. ----

void LocalTrial::on_warden() {
  launch::WardenReport report;
  while (!gone_) {
    switch (warden_->read(report)) {
      case launch::Warden::Read::kNothing:
        return;
      case launch::Warden::Read::kReport:
        on_warden_report(report);
        break;
      case launch::Warden::Read::kDead:
        return await_main();
    }
  }
}

/// The warden was killed. Its trial dies with it, but a moment later: until then it may write, and
/// the next attempt must not meet it. Where nobody has said which process that is, if there is one, it
/// has died when its outputs are at their end.
void LocalTrial::await_main() {
  end_.lost = !main_ended_ && !end_.asked;
  awaits_outputs_ = !main_ended_ && pid_ < 0;
  if (!main_ended_ && pid_ > 0)
    process_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (!process_ && !awaits_outputs_) return set_gone();
  loop_.forget(warden_->fd());
  if (process_) loop_.add(process_.get(), [this] { set_gone(); });
  trial_due_.reset();
  report_due_.reset();
  enter(Stage::kKill, kReapS);
  end_if_unheard();
}

void LocalTrial::end_if_unheard() {
  if (awaits_outputs_ && !gone_ && out_.closed && err_.closed) set_gone();
}

void LocalTrial::on_warden_report(const launch::WardenReport& report) {
  switch (report.kind) {
    case launch::WardenReport::kStarted:
      pid_ = report.pid;
      return;
    case launch::WardenReport::kNotStarted:
      end_.not_started = launch::exec_failure(start_.program, report.status);
      main_ended_ = true;
      return;
    case launch::WardenReport::kEnded:
      return on_main_end(report.status);
    case launch::WardenReport::kStopped:
    case launch::WardenReport::kContinued:
      return;  // its deadlines are those of the trial that it is, stopped or not
    case launch::WardenReport::kAllGone:
      return set_gone();
  }
}

void LocalTrial::on_main_end(int wait_status) {
  main_ended_ = true;
  end_.wait_status = wait_status;
  trial_due_.reset();
  report_due_.reset();
  // What it left running, if there is something, has the grace that it had itself.
  if (stage_ < Stage::kTerm) {
    warden_->order({launch::WardenOrder::kSignalEverybody, SIGTERM});
    enter(Stage::kTerm, start_.kill_grace_s);
  }
}

void LocalTrial::set_gone() {
  gone_ = true;
  loop_.forget(warden_->fd());
  if (process_) loop_.forget(process_.get());
  stage_due_.reset();
  trial_due_.reset();
  report_due_.reset();
  handler_.on_no_process_left(*this);
}

void LocalTrial::enter(Stage stage, double seconds) {
  stage_ = stage;
  stage_due_ = after(seconds);
}

void LocalTrial::ask_to_end(double grace_s) {
  if (stage_ != Stage::kRunning || failed()) return;
  end_.asked = true;
  report_due_.reset();
  enter(Stage::kAsked, grace_s);
  if (grace_s <= 0) on_time(TuneClock::now());
}

void LocalTrial::fail(Failure failure, const std::string& why) {
  if (failed() || end_.asked || main_ended_) return;
  end_.failure = failure;
  end_.why = why;
  trial_due_.reset();
  report_due_.reset();
  enter(Stage::kAsked, 0);
}

void LocalTrial::kill() {
  if (stage_ == Stage::kKill || gone_) return;
  if (!main_ended_ && !failed()) end_.asked = true;
  warden_->order({launch::WardenOrder::kKill, SIGKILL});
  trial_due_.reset();
  report_due_.reset();
  enter(Stage::kKill, kReapS);
}

std::optional<TuneClock::time_point> LocalTrial::deadline() const {
  std::optional<TuneClock::time_point> first;
  for (const auto& due : {stage_due_, trial_due_, report_due_}) {
    if (due && (!first || *due < *first)) first = due;
  }
  return first;
}

void LocalTrial::on_time(TuneClock::time_point now) {
  const auto over = [&](const auto& due) { return due && *due <= now; };
  if (over(trial_due_)) {
    fail(Failure::kTimeout,
         concat("no end within ", human_duration(start_.trial_timeout_s), " (trial_timeout_s)"));
  } else if (over(report_due_)) {
    fail(Failure::kTimeout,
         concat("no report for ", human_duration(start_.report_timeout_s), " (report_timeout_s)"));
  }
  if (!over(stage_due_)) return;
  switch (stage_) {
    case Stage::kRunning:
      return;
    case Stage::kAsked:
      warden_->order({launch::WardenOrder::kSignalRanks, SIGTERM});
      return enter(Stage::kTerm, start_.kill_grace_s);
    case Stage::kTerm:
      if (!main_ended_) {
        handler_.on_note(
            trial(),
            concat(
                "did not end within ", human_duration(start_.kill_grace_s), " of SIGTERM: killed"));
      }
      warden_->order({launch::WardenOrder::kKill, SIGKILL});
      return enter(Stage::kKill, kReapS);
    case Stage::kKill:
      handler_.on_note(trial(),
                       pid_ < 0
                           ? "what its warden had begun does not die: it hangs in the kernel"
                           : concat("process ", pid_, " does not die: it hangs in the kernel"));
      stage_ = Stage::kGivenUp;
      end_.lost = !main_ended_ && !end_.asked;
      return set_gone();
    case Stage::kGivenUp:
      return;
  }
}

// ---- What it writes. ----

void LocalTrial::reported() {
  ++open_;
  report_due_.reset();
}

void LocalTrial::answered(bool one_way) {
  if (open_ > 0) --open_;
  if (one_way && open_one_way_ > 0) --open_one_way_;
  arm_report_timeout();
  refresh();
}

void LocalTrial::arm_report_timeout() {
  if (start_.report_timeout_s > 0 && stage_ == Stage::kRunning && !main_ended_ && open_ == 0)
    report_due_ = after(start_.report_timeout_s);
}

/// Reads go on while few reports wait for answers: a flood is held back in its pipe.
void LocalTrial::refresh() {
  const bool pause = open_one_way_ >= kMostOpen;
  if (pause == paused_) return;
  paused_ = pause;
  const auto turn = [&](int fd) { pause ? loop_.pause(fd) : loop_.resume(fd); };
  if (!out_.closed) turn(out_.pipe.read_end.get());
  if (report_fd_) turn(report_fd_.get());
}

launch::ReadResult LocalTrial::read_output(Output& output, bool is_stderr) {
  const std::span<char> buffer = read_buffer();
  size_t size = 0;
  const int fd = output.pipe.read_end.get();
  const launch::ReadResult result = launch::read_some(fd, buffer, size);
  if (result == launch::ReadResult::kClosed && !output.closed) {
    output.closed = true;
    loop_.forget(fd);
  }
  if (result != launch::ReadResult::kBytes) return result;
  const std::string_view bytes(buffer.data(), size);
  const std::string trouble = output.log.write(bytes);
  if (!trouble.empty()) handler_.on_note(trial(), trouble);
  output.lines.feed(
      bytes, now_ms(), [&](std::string_view line) { on_output_line(is_stderr, line); });
  return result;
}

launch::ReadResult LocalTrial::read_reports() {
  const std::span<char> buffer = read_buffer();
  size_t size = 0;
  const launch::ReadResult result = launch::read_some(report_fd_.get(), buffer, size);
  if (result == launch::ReadResult::kBytes) {
    report_lines_.feed({buffer.data(), size},
                       [&](std::string_view line) { on_report_line(line, "in the report file"); });
  }
  return result;
}

void LocalTrial::on_output_line(bool is_stderr, std::string_view line) {
  if (const auto json = behind_tag(line, kFailureTag)) {
    try {
      end_.said = parse_failure_line(*json);
    } catch (const Error& error) {
      handler_.on_note(trial(), concat(kFailureTag, " cannot be read: ", error.text().refused));
    }
  } else if (!is_stderr) {
    if (const auto report = behind_tag(line, kMetricTag))
      on_report_line(*report, "on stdout", /*cut=*/line.size() + kLetter > kMaxLineBytes);
  }
  if (!is_stderr) return;
  end_.words.add(line);
  if (end_.last_lines.size() == kLastLines) end_.last_lines.pop_front();
  end_.last_lines.emplace_back(line.substr(0, kLastLineBytes));
}

void LocalTrial::on_report_line(std::string_view line, std::string_view where, bool cut) {
  if (trim(line).empty()) return;
  const auto note_bad_line = [&](const std::string& why) {
    end_.bad_line = concat("a line ", where, " is no report: ", why);
    handler_.on_note(trial(), end_.bad_line);
  };
  if (cut)
    return note_bad_line(
        concat("this line is too long: a line has at most ", kMaxLineBytes, " bytes"));
  try {
    Report report = parse_report_line(line);
    end_.bad_line.clear();
    reported();
    ++open_one_way_;
    handler_.on_one_way_report(*this, std::move(report));
  } catch (const Error& error) {
    note_bad_line(concat(error.text().refused, ": ", error.text().rule));
  }
  refresh();
}

bool LocalTrial::drain() {
  using launch::ReadResult;
  while (read_output(err_, true) == ReadResult::kBytes) {
  }
  // What a trial reports after it was told to end counts for nothing, so nothing is waited for.
  const auto may_read = [&] { return open_one_way_ < kMostOpen || end_.asked || failed(); };
  while (may_read() && read_output(out_, false) == ReadResult::kBytes) {
  }
  while (report_fd_ && may_read() && read_reports() == ReadResult::kBytes) {
  }
  if (!may_read()) return false;
  for (Output* output : {&out_, &err_}) {
    output->lines.flush([&](std::string_view line) { on_output_line(output == &err_, line); });
  }
  report_lines_.flush([&](std::string_view line) { on_report_line(line, "in the report file"); });
  return true;
}

}  // namespace muster::tune
