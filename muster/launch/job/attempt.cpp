#include "muster/launch/job/attempt.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include <errno.h>
#include <string.h>
#include <sys/wait.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/launch/io/event_loop.h"
#include "muster/launch/io/pipe.h"
#include "muster/launch/job/end_marks.h"
#include "muster/launch/job/free_port.h"
#include "muster/launch/job/rank_streams.h"
#include "muster/launch/job/stopped_ranks.h"
#include "muster/launch/process/peer_links.h"
#include "muster/launch/process/program.h"
#include "muster/launch/process/warden.h"

namespace muster::launch {
namespace {

using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC, as in ErrorReport

// For what a finished rank leaves running, between SIGTERM and SIGKILL; the grace time if shorter.
constexpr double kLeftoverGraceS = 5;
// A process that SIGKILL has not ended by then hangs in the kernel: a dead disk or device.
constexpr double kReapS = 5;
// A rank binds its port at the start; the same error later means another port.
constexpr auto kLostPortWindow = std::chrono::seconds(30);
// A rank may be seen before one that it names: that one gets so long to end by itself and say why.
constexpr double kCauseS = 5;

int64_t now_ns() { return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count(); }

class Attempt {
 public:
  Attempt(const JobSpec& spec,
          const AttemptPlan& plan,
          SignalSource& signals,
          JobObserver& observer)
      : spec_(spec), plan_(plan), signals_(signals), observer_(observer) {}

  AttemptResult run(const std::filesystem::path& program);

 private:
  // kRunning ─failure, signal, left─▶ kStopping ────────grace over──────────▶ kKilling
  //     ├──▶ kAwaitingCause ──────────┤                                          │
  //     └───────all ranks ended───────┴───────▶ kLeftovers ──grace over──────────┘
  // From any of them the warden's word that no process is left leads to kOver.
  enum class State { kRunning, kAwaitingCause, kStopping, kLeftovers, kKilling, kOver };
  struct Rank {
    std::unique_ptr<RankStreams> streams;
    int pid = -1;
    bool ended = false;
  };

  void start(const std::filesystem::path& program);
  void watch_everything();
  void on_stream(size_t local_rank, Stream stream);
  void on_progress();
  void on_warden();
  void on_report(const WardenReport& report);
  void on_end(const WardenReport& report);
  void stop_after_failure();
  void on_timer();
  void on_look();
  void on_signal(int signal);
  void heed_congestion();
  void stop(int signal);
  void kill_all();
  void drain();
  std::vector<int64_t> running_ranks() const;
  bool looks_like_lost_port(const RankFailure& failure) const;
  AttemptResult result();

  const JobSpec& spec_;
  const AttemptPlan& plan_;
  SignalSource& signals_;
  JobObserver& observer_;
  const EndMarks end_marks_{ended_folder(plan_), plan_.master_port};

  EventLoop loop_;
  Timer timer_, look_timer_;
  StoppedRanks stopped_{[this](pid_t pid) { return peer_links(pid, plan_.master_port); }};
  std::unique_ptr<Warden> warden_;
  std::vector<Rank> ranks_;
  Pipe progress_;
  LineSplitter progress_lines_;
  bool paused_ = false;

  State state_ = State::kRunning;
  Clock::time_point started_ = Clock::now();
  std::vector<RankEnd> ends_;
  // Ends of later batches came after the ranks were told to stop.
  int32_t last_free_batch_ = INT32_MAX;
  int64_t asked_ns_ = 0;       // when they were
  std::vector<int64_t> left_;  // see Note [Stopped ranks]; who ends of it was not asked
  double nudge_s_ = -1;        // between two times that a quiet warden is sent on; none
  int interrupted_by_ = 0, signals_seen_ = 0, start_errno_ = 0;
  bool warden_lost_ = false;
};

AttemptResult Attempt::run(const std::filesystem::path& program) {
  start(program);
  watch_everything();
  while (state_ != State::kOver) {
    if (!loop_.wait(nudge_s_)) warden_->wake();
    heed_congestion();
  }
  drain();
  if (warden_lost_) {
    throw environment_error({.refused = "the process that watches over the ranks was killed",
                             .rule = "the ranks were killed with it",
                             .hint = "if memory ran out, `dmesg` names what was killed"});
  }
  if (start_errno_ != 0) {
    const bool of_program =
        start_errno_ == ENOENT || start_errno_ == EACCES || start_errno_ == ENOEXEC;
    throw Error(of_program ? ErrorKind::kUsage : ErrorKind::kEnvironment,
                {.refused = exec_failure(program, start_errno_)});
  }
  return result();
}

void Attempt::start(const std::filesystem::path& program) {
  const std::vector<std::string> inherited = inherited_environment();
  std::vector<RankStart> starts;
  std::vector<UniqueFd> inputs;
  if (spec_.node_rank == 0) progress_ = Pipe::make();
  for (int64_t local = 0; local < spec_.nproc_per_node; ++local) {
    const auto folder = plan_.log_folder.empty() ? "" : plan_.log_folder / std::to_string(local);
    const int64_t rank = global_rank(spec_, local);
    const auto& streams =
        ranks_.emplace_back(Rank{std::make_unique<RankStreams>(rank, folder)}).streams;
    inputs.push_back(open_stdin(local));
    starts.push_back({.environment = rank_environment(spec_, plan_, local, inherited),
                      .stdin_fd = inputs.back().get(),
                      .stdout_fd = streams->write_fd(Stream::kOut),
                      .stderr_fd = streams->write_fd(Stream::kErr),
                      .progress_fd = rank == 0 ? progress_.write_end.get() : -1});
  }
  warden_ = std::make_unique<Warden>(program, spec_.argv, starts, &signals_.mask_before());
  progress_.write_end.reset();
  for (Rank& rank : ranks_) rank.streams->close_write_ends();
}

void Attempt::watch_everything() {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    for (const Stream stream : {Stream::kOut, Stream::kErr}) {
      loop_.add(ranks_[i].streams->read_fd(stream), [this, i, stream] { on_stream(i, stream); });
    }
  }
  if (progress_.read_end) loop_.add(progress_.read_end.get(), [this] { on_progress(); });
  loop_.add(warden_->fd(), [this] { on_warden(); });
  loop_.add(timer_.fd(), [this] { on_timer(); });
  loop_.add(look_timer_.fd(), [this] { on_look(); });
  if (signals_.fd() >= 0) {
    loop_.add(signals_.fd(), [this] {
      while (const int signal = signals_.next()) on_signal(signal);
    });
  }
  if (observer_.wake_fd() >= 0) loop_.add(observer_.wake_fd(), [] {});
}

void Attempt::on_stream(size_t local_rank, Stream stream) {
  RankStreams& streams = *ranks_[local_rank].streams;
  if (streams.read(stream, observer_) != ReadResult::kClosed) return;
  loop_.forget(streams.read_fd(stream));
  warden_->wake();  // it has the rank's end to report
  nudge_s_ = Warden::kNudgeS;
}

void Attempt::on_progress() {
  char buffer[4096];
  size_t size = 0;
  const ReadResult result = read_some(progress_.read_end.get(), buffer, size);
  if (result == ReadResult::kClosed) loop_.forget(progress_.read_end.get());
  progress_lines_.feed(
      {buffer, size}, 0, [this](std::string_view line) { observer_.on_progress(line); });
}

void Attempt::on_warden() {
  WardenReport report;
  for (;;) {
    switch (warden_->read(report)) {
      case Warden::Read::kNothing:
        return;
      case Warden::Read::kReport:
        on_report(report);
        if (state_ == State::kOver) return;
        break;
      case Warden::Read::kDead:
        warden_lost_ = true;
        warden_->reap();
        state_ = State::kOver;
        return;
    }
  }
}

void Attempt::on_report(const WardenReport& report) {
  switch (report.kind) {
    case WardenReport::kStarted:
      ranks_[static_cast<size_t>(report.rank)].pid = report.pid;
      return;
    case WardenReport::kNotStarted:
      start_errno_ = report.status;
      ranks_[static_cast<size_t>(report.rank)].ended = true;
      kill_all();
      return;
    case WardenReport::kEnded:
      return on_end(report);
    case WardenReport::kStopped:
      if (stopped_.empty()) look_timer_.arm(StoppedRanks::kLookS);
      stopped_.add(global_rank(spec_, report.rank), report.pid);
      return;
    case WardenReport::kContinued:
      return stopped_.remove(global_rank(spec_, report.rank));
    case WardenReport::kAllGone:
      warden_->reap();
      state_ = State::kOver;
      return;
  }
}

void Attempt::on_end(const WardenReport& report) {
  const auto local = static_cast<size_t>(report.rank);
  ranks_[local].ended = true;
  stopped_.remove(global_rank(spec_, report.rank));
  ends_.push_back(
      {.rank = global_rank(spec_, report.rank),
       .pid = report.pid,
       .wait_status = report.status,
       .order = report.batch,
       .time_ns = now_ns(),
       .asked_ns = report.batch > last_free_batch_ ? std::optional(asked_ns_) : std::nullopt,
       .report = read_error_report(error_file(plan_, report.rank))});
  if (!running_ranks().empty()) end_marks_.add(ends_.back().rank);
  if (state_ == State::kRunning || state_ == State::kAwaitingCause) stop_after_failure();
  if (running_ranks().empty() && state_ != State::kKilling) {
    state_ = State::kLeftovers;
    warden_->order({WardenOrder::kSignalEverybody, SIGTERM});
    timer_.arm(std::min(kLeftoverGraceS, spec_.shutdown_timeout_s));
  }
}

void Attempt::stop_after_failure() {
  const auto failed = [](const RankEnd& end) { return end.wait_status != 0; };
  if (std::none_of(ends_.begin(), ends_.end(), failed)) return;
  if (!awaits_cause(ends_, running_ranks())) return stop(SIGTERM);
  if (state_ == State::kAwaitingCause) return;
  state_ = State::kAwaitingCause;
  timer_.arm(std::min(kCauseS, spec_.shutdown_timeout_s));
}

void Attempt::on_timer() {
  timer_.clear();
  if (state_ == State::kAwaitingCause) {
    stop(SIGTERM);
  } else if (state_ == State::kKilling) {
    state_ = State::kOver;
  } else if (state_ == State::kStopping || state_ == State::kLeftovers) {
    if (state_ == State::kStopping)
      observer_.on_note(late_text(running_ranks(), spec_.shutdown_timeout_s));
    kill_all();
  }
}

// While ranks run that are not stopped, the end is theirs to see.
void Attempt::on_look() {
  look_timer_.clear();
  if (state_ != State::kRunning || stopped_.empty()) return;
  const std::vector<int64_t> left = stopped_.look();
  if (left.size() < running_ranks().size()) return look_timer_.arm(StoppedRanks::kLookS);
  left_ = left;
  observer_.on_note(left_text(left, spec_.shutdown_timeout_s));
  stop(SIGTERM);
}

void Attempt::on_signal(int signal) {
  ++signals_seen_;
  const bool from_keyboard = signal == SIGINT || signal == SIGQUIT;
  switch (state_) {
    case State::kRunning:
      interrupted_by_ = signal;
      observer_.on_note(concat("SIG",
                               ::sigabbrev_np(signal),
                               ": passed on to the ranks, which have ",
                               shortest(spec_.shutdown_timeout_s),
                               " s to end",
                               from_keyboard ? "; press Ctrl-C again to kill them" : ""));
      stop(signal);
      return;
    case State::kAwaitingCause:
      return stop(signal);
    case State::kStopping:
      if (from_keyboard && signals_seen_ > 1) {
        kill_all();
      } else {
        warden_->order({WardenOrder::kSignalRanks, signal});
      }
      return;
    case State::kLeftovers:
      return kill_all();
    case State::kKilling:
    case State::kOver:
      return;
  }
}

void Attempt::heed_congestion() {
  const bool congested = observer_.congested();
  if (congested == paused_) return;
  paused_ = congested;
  for (const Rank& rank : ranks_) {
    for (const Stream stream : {Stream::kOut, Stream::kErr}) {
      const int fd = rank.streams->read_fd(stream);
      congested ? loop_.pause(fd) : loop_.resume(fd);
    }
  }
}

void Attempt::stop(int signal) {
  asked_ns_ = now_ns();
  if (interrupted_by_ != 0)
    last_free_batch_ = -1;
  else if (left_.empty())
    last_free_batch_ = static_cast<int32_t>(ends_.back().order);
  state_ = State::kStopping;
  warden_->order({WardenOrder::kSignalRanks, signal});
  timer_.arm(spec_.shutdown_timeout_s);
}

void Attempt::kill_all() {
  if (state_ == State::kKilling) return;
  state_ = State::kKilling;
  warden_->order({WardenOrder::kKill, SIGKILL});
  timer_.arm(kReapS);
}

void Attempt::drain() {
  for (Rank& rank : ranks_) rank.streams->drain(observer_);
  if (progress_.read_end) on_progress();
}

// See Note [Lost port].
bool Attempt::looks_like_lost_port(const RankFailure& failure) const {
  if (Clock::now() - started_ > kLostPortWindow) return false;
  const int status = failure.wait_status;
  if (WIFEXITED(status) && WEXITSTATUS(status) == kLostPortExitCode) return true;
  return std::any_of(ranks_.begin(), ranks_.end(), [&](const Rank& rank) {
    return says_port_is_taken(rank.streams->tail().lines(), plan_.master_port);
  });
}

std::vector<int64_t> Attempt::running_ranks() const {
  std::vector<int64_t> running;
  for (size_t local = 0; local < ranks_.size(); ++local)
    if (!ranks_[local].ended) running.push_back(global_rank(spec_, static_cast<int64_t>(local)));
  return running;
}

AttemptResult Attempt::result() {
  AttemptResult result;
  result.interrupted_by = interrupted_by_;
  result.stop_wanted = signals_seen_ > 0;
  for (const Rank& rank : ranks_)
    if (!rank.ended) result.left_behind.push_back(rank.pid);
  const auto cause = interrupted_by_ == 0 ? first_cause(ends_) : std::nullopt;
  if (!cause) return result;
  const RankEnd& end = ends_[*cause];
  const int64_t local = end.rank - global_rank(spec_, 0);
  const Rank& rank = ranks_[static_cast<size_t>(local)];
  result.failure = RankFailure{.rank = end.rank,
                               .pid = end.pid,
                               .wait_status = end.wait_status,
                               .report = end.report,
                               .last_lines = rank.streams->tail().lines(),
                               .log = log_with_words(plan_.log_folder, local),
                               .was_left = std::count(left_.begin(), left_.end(), end.rank) > 0,
                               .before = ends_before(end, ends_)};
  result.lost_port = looks_like_lost_port(*result.failure);
  return result;
}

}  // namespace

AttemptResult run_attempt(const JobSpec& spec,
                          const std::filesystem::path& program,
                          const AttemptPlan& plan,
                          SignalSource& signals,
                          JobObserver& observer) {
  return Attempt(spec, plan, signals, observer).run(program);
}

}  // namespace muster::launch
