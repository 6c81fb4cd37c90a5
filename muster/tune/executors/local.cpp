// Trials are programs on this machine.
#include <algorithm>
#include <map>
#include <unordered_map>

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "muster/base/duration.h"
#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/host.h"
#include "muster/base/text.h"
#include "muster/launch/job/rank_plan.h"
#include "muster/launch/process/signal_source.h"
#include "muster/launch/process/warden.h"
#include "muster/tune/core/variants.h"
#include "muster/tune/execute/executor.h"
#include "muster/tune/execute/local_trial.h"
#include "muster/tune/execute/prepare.h"
#include "muster/tune/execute/report_server.h"
#include "muster/tune/execute/user_order.h"

namespace muster::tune {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostEvents = 2048;  // out of one wait()
constexpr int kMostRounds = 16;       // a trial that prints without end must not hold up others
constexpr size_t kMostNotes = 20;     // different ones per trial; a flood of words is no news
constexpr double kEndS = 10;          // for the processes of trials when the tuner ends

class LocalExecutor : public Executor, public ReportServer::Handler, public LocalTrial::Handler {
 public:
  explicit LocalExecutor(const ExecutorContext& context);
  ~LocalExecutor() override;

  void start(const AttemptPlan& plan) override;
  std::vector<ExecutorEvent> wait(double timeout_s) override;
  void answer(uint64_t token, const Decision& decision) override;
  void reject(uint64_t token, const std::string& why) override;
  void stop(int64_t trial, std::string_view reason, bool kill) override;
  bool has_checkpoint(const std::string& path) const override;
  std::string location(int64_t trial) const override;

 private:
  struct Running {
    std::unique_ptr<LocalTrial> process;
    int64_t reports = 0;
    int64_t oom_kills = 0;     // when it started
    Decision told;             // once it was told to end
    bool has_to_hear = false;  // of a wish: as the answer to its next report, which counts
    bool counts() const { return told.action == Action::kContinue || has_to_hear; }
    std::vector<std::string> notes;
    bool said_missing = false;  // that a checkpoint is not there
  };
  struct Ticket {
    int64_t trial;
    int32_t attempt;
    bool one_way;
  };

  Taken on_report(int64_t trial, Report report) override;
  Taken on_order(const UserOrder& order) override;
  void on_one_way_report(LocalTrial& trial, Report report) override;
  void on_note(int64_t trial, const std::string& text) override;
  void on_no_process_left(LocalTrial& trial) override { ending_.push_back(trial.trial()); }

  void drop_missing(int64_t trial, Report& report);
  uint64_t hand_up(Running& running, Report report, bool one_way);
  void tell_to_end(Running& running, const Decision& decision, bool hears);
  Running* answer_ticket(uint64_t token, const Answer& answer);
  void finish_ended();
  void on_signals();
  double run_deadlines(TuneClock::time_point now);
  void pass_time(double timeout_s);

  const StudySpec& spec_;
  std::string study_, identity_;
  launch::SignalSource signals_{true};
  fs::path runtime_folder_ = make_runtime_folder();
  launch::Nursery nursery_{runtime_folder_};
  launch::EventLoop loop_;
  std::string stop_token_ = make_token();
  ReportServer server_;
  std::vector<std::string> inherited_ = launch::inherited_environment();
  UniqueFd null_;
  OomCounter oom_;
  std::string host_ = host_name();
  fs::path contact_;
  std::map<int64_t, Running> running_;
  std::vector<int64_t> ending_;  // no process is left
  std::unordered_map<uint64_t, Ticket> tickets_;
  uint64_t next_ticket_ = 1;
  std::vector<ExecutorEvent> events_;
  std::vector<std::string> notes_;  // about nobody in particular
};

// ---- Start and end. ----

LocalExecutor::LocalExecutor(const ExecutorContext& context)
    : spec_(context.spec),
      study_(context.study),
      identity_(context.identity),
      server_(loop_, socket_in(runtime_folder_), stop_token_, *this),
      null_(launch::raised(UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)))) {
  if (signals_.fd() >= 0) loop_.add(signals_.fd(), [this] { on_signals(); });
  if (spec_.storage.empty()) return;
  contact_ = contact_file(spec_.storage, study_);
  write_contact(
      contact_,
      {.pid = ::getpid(),
       .address = {.path = socket_in(runtime_folder_)},
       .token = stop_token_,
       .facts = {
           .time_budget_s = spec_.time_budget_s,
           .max_concurrent = spec_.max_concurrent,
           .planned = Variants(spec_).trials(),
           .trial_folder = spec_.trial_folder.empty() ? "" : fs::absolute(spec_.trial_folder)}});
}

LocalExecutor::~LocalExecutor() {
  for (auto& [trial, running] : running_) running.process->kill();
  const auto until = TuneClock::now() + std::chrono::duration<double>(kEndS);
  const auto all_gone = [&] {
    return std::ranges::all_of(
        running_, [](const auto& one) { return one.second.process->no_process_left(); });
  };
  while (!all_gone() && TuneClock::now() < until) pass_time(1);
  running_.clear();
  std::error_code ignored;
  if (!contact_.empty()) fs::remove(contact_, ignored);
}

void LocalExecutor::start(const AttemptPlan& plan) {
  const std::string token = make_token();
  LocalTrialStart start;
  try {
    start = prepare({.spec = spec_, .study = study_, .identity = identity_},
                    plan,
                    runtime_folder_,
                    token,
                    inherited_);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) throw;
    events_.push_back({.kind = ExecutorEvent::kEnded,
                       .trial = plan.trial,
                       .attempt = plan.attempt,
                       .failure = Failure::kCrash,
                       .message = error.what()});
    return;
  }
  Running& running = running_[plan.trial];
  running = {};
  running.oom_kills = oom_.read();
  server_.admit(plan.trial, plan.attempt, token);
  try {
    running.process = std::make_unique<LocalTrial>(
        start, nursery_, loop_, signals_.mask_before(), null_.get(), *this);
  } catch (...) {
    server_.dismiss(plan.trial);
    running_.erase(plan.trial);
    throw;
  }
}

// ---- Reports and answers. ----

bool LocalExecutor::has_checkpoint(const std::string& path) const {
  std::error_code error;
  return fs::exists(path, error);
}

/// A program that does not wait for answers may have removed by now what it had saved, as one does
/// that keeps its newest alone: its report counts, the checkpoint does not.
void LocalExecutor::drop_missing(int64_t trial, Report& report) {
  if (report.checkpoint.empty() || has_checkpoint(report.checkpoint)) return;
  Running& running = running_.at(trial);
  if (!std::exchange(running.said_missing, true))
    on_note(trial, concat("the checkpoint that it reported is not there: ", report.checkpoint));
  report.checkpoint.clear();
}

uint64_t LocalExecutor::hand_up(Running& running, Report report, bool one_way) {
  const uint64_t ticket = next_ticket_++;
  const int64_t trial = running.process->trial();
  tickets_[ticket] = {trial, running.process->attempt(), one_way};
  report.sequence = ++running.reports;
  // Where it will be looked for is elsewhere.
  if (!report.checkpoint.empty() && !report.checkpoint.starts_with('/'))
    report.checkpoint = fs::absolute(spec_.working_folder / report.checkpoint).lexically_normal();
  if (one_way) drop_missing(trial, report);
  events_.push_back({.kind = ExecutorEvent::kReport,
                     .trial = trial,
                     .attempt = running.process->attempt(),
                     .report = std::move(report),
                     .token = ticket,
                     .waits = !one_way});
  return ticket;
}

ReportServer::Handler::Taken LocalExecutor::on_report(int64_t trial, Report report) {
  const auto found = running_.find(trial);
  if (found == running_.end()) return {.now = Answer{.error = "this trial is over"}};
  Running& running = found->second;
  if (running.counts()) {
    running.process->reported();
    return {.ticket = hand_up(running, std::move(report), false)};
  }
  on_note(trial, "goes on reporting after it was told to end: not counted");
  return {.now = Answer{.action = running.told.action, .reason = running.told.reason}};
}

void LocalExecutor::on_one_way_report(LocalTrial& trial, Report report) {
  Running& running = running_.at(trial.trial());
  if (!running.counts()) return trial.answered(/*one_way=*/true);
  hand_up(running, std::move(report), true);
}

void LocalExecutor::tell_to_end(Running& running, const Decision& decision, bool hears) {
  if (running.told.action != Action::kContinue) return;
  running.told = decision;
  running.process->ask_to_end(hears ? spec_.stop_grace_s : 0);
}

/// Gives the answer to a report; the attempt that made it, or null if that is over.
LocalExecutor::Running* LocalExecutor::answer_ticket(uint64_t token, const Answer& answer) {
  const auto found = tickets_.find(token);
  if (found == tickets_.end()) return nullptr;
  const Ticket ticket = found->second;
  tickets_.erase(found);
  if (!ticket.one_way) server_.answer(token, answer);
  const auto running = running_.find(ticket.trial);
  if (running == running_.end() || running->second.process->attempt() != ticket.attempt)
    return nullptr;
  running->second.process->answered(ticket.one_way);
  return &running->second;
}

void LocalExecutor::answer(uint64_t token, const Decision& decision) {
  const auto found = tickets_.find(token);
  const bool two_way = found != tickets_.end() && !found->second.one_way;
  const auto of = found == tickets_.end() ? running_.end() : running_.find(found->second.trial);
  const bool wish = of != running_.end() && of->second.has_to_hear;
  const Decision said = wish && decision.action == Action::kContinue ? of->second.told : decision;
  Running* running = answer_ticket(token, {.action = said.action, .reason = said.reason});
  if (running == nullptr || said.action == Action::kContinue) return;
  if (two_way || decision.action != Action::kContinue) running->has_to_hear = false;
  tell_to_end(*running, said, two_way || server_.hears(running->process->trial()));
}

void LocalExecutor::reject(uint64_t token, const std::string& why) {
  answer_ticket(token, {.error = why.empty() ? "refused" : why});
}

void LocalExecutor::stop(int64_t trial, std::string_view reason, bool kill) {
  const auto found = running_.find(trial);
  if (found == running_.end()) return;
  if (found->second.told.action == Action::kContinue) found->second.has_to_hear = true;
  tell_to_end(found->second,
              {.action = Action::kStop, .reason = std::string(reason)},
              server_.hears(trial));
  if (kill) found->second.process->kill();
}

std::string LocalExecutor::location(int64_t trial) const {
  const auto found = running_.find(trial);
  const int pid = found == running_.end() ? -1 : found->second.process->pid();
  return pid < 0 ? host_ : concat(host_, ':', pid);
}

// ---- What happens. ----

/// That of one trial may be refused, by the study and not here: of one that is paused or waits, too.
ReportServer::Handler::Taken LocalExecutor::on_order(const UserOrder& order) {
  const std::string by = concat("`muster study ", name_of(order.action), '`');
  if (order.trial < 0) {
    events_.push_back({.kind = ExecutorEvent::kStopStudy, .message = by});
    return {.now = Answer{.action = Action::kStop}};
  }
  const uint64_t ticket = next_ticket_++;
  tickets_[ticket] = {.trial = -1, .attempt = 0, .one_way = false};
  events_.push_back({.kind = ExecutorEvent::kOrder,
                     .trial = order.trial,
                     .token = ticket,
                     .action = order.action,
                     .message = by});
  return {.ticket = ticket};
}

void LocalExecutor::on_note(int64_t trial, const std::string& text) {
  const auto found = running_.find(trial);
  std::vector<std::string>& told = found == running_.end() ? notes_ : found->second.notes;
  if (told.size() == kMostNotes || std::ranges::find(told, text) != told.end()) return;
  told.push_back(text);
  events_.push_back({.kind = ExecutorEvent::kNote,
                     .trial = trial,
                     .message = trial < 0 ? text : concat("trial ", trial, ": ", text)});
}

void LocalExecutor::on_signals() {
  while (const int signal = signals_.next()) {
    events_.push_back(
        {.kind = ExecutorEvent::kInterrupt, .message = concat("SIG", ::sigabbrev_np(signal))});
  }
}

/// Trials of which no process is left end when all that they wrote has been taken.
void LocalExecutor::finish_ended() {
  std::vector<int64_t> again;
  for (const int64_t trial : std::exchange(ending_, {})) {
    Running& running = running_.at(trial);
    LocalTrial& process = *running.process;
    const bool all = server_.read_rest(trial);
    const bool counts = running.told.action == Action::kContinue;
    if (!process.drain() || (!all && counts)) {
      again.push_back(trial);
      continue;
    }
    TrialEnd& end = process.end();
    const bool killed = !end.asked && looks_killed(end.wait_status);
    end.kernel_killed = killed && oom_.claim_kill(running.oom_kills);
    Judgement judgement = judge(end);
    events_.push_back({.kind = ExecutorEvent::kEnded,
                       .trial = trial,
                       .attempt = process.attempt(),
                       .failure = judgement.failure,
                       .message = std::move(judgement.message)});
    server_.dismiss(trial);
    running_.erase(trial);
  }
  ending_.insert(ending_.end(), again.begin(), again.end());
}

/// Does what was due at `now`. Seconds until something is; < 0: nothing will be.
double LocalExecutor::run_deadlines(TuneClock::time_point now) {
  std::optional<TuneClock::time_point> first;
  for (auto& [trial, running] : running_) {
    LocalTrial& process = *running.process;
    if (const auto due = process.deadline(); due && *due <= now) {
      process.on_time(now);
      if (process.failed() && running.told.action == Action::kContinue)
        running.told = {.action = Action::kStop, .reason = process.end().why};
    }
    const auto due = process.deadline();
    if (due && (!first || *due < *first)) first = due;
  }
  if (!first) return -1;
  return std::max(std::chrono::duration<double>(*first - TuneClock::now()).count(), 0.0);
}

/// Until something happens or is due, at most so long (< 0: no limit). What is there by now is
/// taken before a deadline is held to have passed: a tuner that was held up must not call late what
/// came in time. That takes some rounds (a connection, then its report), but no flood of one trial
/// puts off the deadlines of others.
void LocalExecutor::pass_time(double timeout_s) {
  const auto now = TuneClock::now();
  const size_t before = events_.size() + ending_.size();
  for (int i = 0; i < kMostRounds && loop_.wait(0); ++i) {
  }
  const double due_s = run_deadlines(now);
  if (events_.size() + ending_.size() > before) return;
  loop_.wait(due_s < 0 || (timeout_s >= 0 && timeout_s < due_s) ? timeout_s : due_s);
}

std::vector<ExecutorEvent> LocalExecutor::wait(double timeout_s) {
  const auto until = TuneClock::now() + bounded_wait(timeout_s);
  finish_ended();  // an answer may have been what it waited for
  // At least once, for the deadlines, also if events are left of the last time.
  for (double left = events_.empty() ? timeout_s : 0;;) {
    pass_time(left);
    finish_ended();
    if (!events_.empty()) break;
    if (timeout_s < 0) continue;
    left = std::chrono::duration<double>(until - TuneClock::now()).count();
    if (left <= 0) break;
  }
  // What else is there comes along: one transaction for all.
  for (int i = 0; i < kMostRounds && events_.size() < kMostEvents && loop_.wait(0); ++i)
    finish_ended();
  if (events_.size() <= kMostEvents) return std::exchange(events_, {});
  std::vector<ExecutorEvent> first(std::make_move_iterator(events_.begin()),
                                   std::make_move_iterator(events_.begin() + kMostEvents));
  events_.erase(events_.begin(), events_.begin() + kMostEvents);
  return first;
}

std::unique_ptr<Executor> make_local(const ExecutorContext& context, const ParamValues& params) {
  check_param_names({}, params, "executor local");
  return std::make_unique<LocalExecutor>(context);
}

}  // namespace

extern constinit const ExecutorEntry local_entry{
    "local", "trials are programs on this machine", {}, &make_local};

}  // namespace muster::tune
