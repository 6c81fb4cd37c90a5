#include "muster/tune/run/study.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::tune {

namespace {

/// The point that has these values; nothing if they are not a whole point of the space, as those of
/// another Optuna program need not be.
std::optional<Point> full_point(const Space& space,
                                const std::map<std::string, Value>& values) try {
  Point point = space.point_of(values);
  const Point drawn = space.with_conditions(space.draw(point, 0, 0));
  for (size_t d = 0; d < point.size(); ++d) {
    if (std::isnan(point[d]) && !std::isnan(drawn[d])) return std::nullopt;
  }
  return space.with_conditions(std::move(point));
} catch (const Error&) {
  return std::nullopt;
}

/// What a study of several objectives, or with constraints, learns of it besides.
void take_goals(const Goals& goals, const ForeignTrial& trial, OutsideTrial& outside) {
  if (trial.values.size() == goals.objectives.size()) outside.results = trial.values;
  if (goals.constraints.empty()) return;
  outside.violation = GoalValues{.results = {}, .violations = trial.constraints}.violation();
}

}  // namespace

double wall_clock_s() {
  using Seconds = std::chrono::duration<double>;
  return Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

LockWait::LockWait(double patience_s, const std::function<void(const std::string& line)>& note)
    : patience_s_(patience_s), note_(note), since_(std::chrono::steady_clock::now()) {}

void LockWait::go_on(const StorageLocked& error) const {
  constexpr auto kPause = std::chrono::milliseconds(10);  // SQLite has waited, as a rule
  const auto now = std::chrono::steady_clock::now();
  if (std::chrono::duration<double>(now - since_).count() >= patience_s_)
    throw error.after(patience_s_);
  if (note_ && !said_)
    note_(concat(error.what(), "\nhint: trying again for ", human_duration(patience_s_)));
  said_ = true;
  std::this_thread::sleep_for(kPause);
}

// ---- Turns ----

Study::Turn::Turn(Study& study) : study_(study) {
  std::unique_lock lock(study_.mutex_);
  study_.idle_.wait(lock, [&] { return !study_.busy_; });
  study_.busy_ = true;
}

Study::Turn::~Turn() {
  const std::lock_guard lock(study_.mutex_);
  study_.pass_on();
}

/// Gives the turn back; with the lock held.
void Study::pass_on() {
  busy_ = false;
  if (!queue_.empty()) queue_.front()->turn.notify_one();
  idle_.notify_all();
}

/// Calls that come in while others are being made and stored wait together; one of them then makes
/// all of them in one transaction. Each is woken once, when its call is done or when it is to lead.
void Study::run(Made made, void* call) {
  std::unique_lock lock(mutex_);
  if (!storage_) return run_in_memory(made, call, lock);
  Waiting mine{.made = made, .call = call, .error = {}, .done = false, .turn = {}};
  queue_.push_back(&mine);
  while (!mine.done) {
    if (busy_) {
      mine.turn.wait(lock);
    } else {
      lead(lock);
    }
  }
  if (mine.error) std::rethrow_exception(mine.error);
}

void Study::run_in_memory(Made made, void* call, std::unique_lock<std::mutex>& lock) {
  idle_.wait(lock, [&] { return !busy_; });
  made(call, clock_(), core_);
  if (observer_) {
    show(core_.take_events());
  } else {
    core_.discard_events();
  }
}

void Study::lead(std::unique_lock<std::mutex>& lock) {
  busy_ = true;
  const std::vector<Waiting*> calls(queue_.begin(), queue_.end());
  queue_.clear();
  lock.unlock();
  std::exception_ptr error;
  try {
    transact(calls);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  for (Waiting* call : calls) {
    if (!call->error) call->error = error;
    call->done = true;
    call->turn.notify_one();
  }
  pass_on();
}

// ---- Transactions ----

void Study::make(std::span<Waiting* const> calls) {
  for (Waiting* call : calls) {
    try {
      call->made(call->call, clock_(), core_);
    } catch (...) {
      call->error = std::current_exception();
    }
  }
}

void Study::transact(std::span<Waiting* const> calls) {
  std::vector<Event> ours;
  storage_->transact([&](std::vector<Event> theirs) -> std::span<const Event> {
    if (!core_is_ahead_) unlogged_ = core_.unlogged();
    if (core_is_ahead_ || (suggests_ && lacks_what_waits())) {
      rebuild();
    } else {
      follow(std::move(theirs));
    }
    core_is_ahead_ = true;
    tell_finished();
    if (suggests_) offer_waiting();
    make(calls);
    ours = core_.take_events();
    keep_outline(ours);
    return ours;
  });
  core_is_ahead_ = false;
  finished_.clear();
  show(std::exchange(unshown_, {}));
  show(ours);
}

/// Does what others have done.
void Study::follow(std::vector<Event> theirs) {
  if (theirs.empty()) return;
  core_is_ahead_ = true;  // or half behind, if one does not replay
  for (const Event& event : theirs) core_.replay(event);
  core_is_ahead_ = false;
  if (observer_)
    unshown_.insert(unshown_.end(),
                    std::make_move_iterator(theirs.begin()),
                    std::make_move_iterator(theirs.end()));
}

/// The calls of a transaction that failed were made all the same: what is not in the log is as it
/// was before them, and they are made again.
void Study::rebuild() {
  StudyCore core(core_.spec(), suggests_);
  begin_calls(core);
  unshown_.clear();
  storage_->for_each_event([&](Event&& event) {
    core.replay(event);
    if (observer_ && event.id > shown_) unshown_.push_back(std::move(event));
  });
  core.restore(unlogged_);
  core_ = std::move(core);
}

/// A trial waits that is one once more, and neither it nor this core says with which point: one that
/// an older version has put in.
bool Study::lacks_what_waits() {
  for (const WaitingTrial& trial : storage_->waiting_trials())
    if (is_again(trial) && !has_own_point(trial) && !core_.knows(*trial.again)) return true;
  return false;
}

/// Of a trial of this study: Optuna copies attributes into others.
bool Study::is_again(const WaitingTrial& trial) const {
  const auto count = static_cast<int64_t>(core_.trials().size());
  return trial.again && *trial.again >= 0 && *trial.again < count;
}

bool Study::has_own_point(const WaitingTrial& trial) const {
  const Space& space = core_.spec().space;
  return !trial.point.empty() && trial.point.size() == space.dimensions().size() &&
         !space.outside(trial.point);
}

void Study::catch_up() {
  if (!storage_) return;
  const Turn turn(*this);
  if (core_is_ahead_) return;  // the next call makes it anew
  follow(storage_->news());
  show(std::exchange(unshown_, {}));
}

void Study::show(std::span<const Event> events) {
  if (events.empty()) return;
  shown_ = events.back().id;
  if (!observer_ || observer_error_) return;
  try {
    observer_(core_, events);
  } catch (...) {
    observer_error_ = std::current_exception();
  }
}

void Study::check_observer() const {
  if (observer_error_) std::rethrow_exception(observer_error_);
}

std::vector<std::string> Study::take_needless_checkpoints() {
  const Turn turn(*this);
  if (core_is_ahead_) return {};
  return core_.take_needless_checkpoints();
}

std::vector<Trial> Study::take_trials() {
  const Turn turn(*this);
  return std::move(core_).take_trials();
}

// ---- Begin ----

Study::Study(const StudySpec& spec, Clock clock, EventObserver observer, StudyOptions options)
    : clock_(std::move(clock)),
      observer_(std::move(observer)),
      core_(spec, options.suggests),
      suggests_(options.suggests) {
  if (spec.storage.empty()) return;
  if (options.tuner) tuner_lock_ = std::make_unique<TunerLock>(spec.storage, spec.name);
  wait_for_lock(spec.storage_patience_s, options.note, [&] { open(spec, options); });
  take_in(options);
  wait_for_lock(spec.storage_patience_s, options.note, [&] {
    options.tuner ? begin_tuner() : begin_asker(spec);
  });
}

/// What was before.
void Study::take_in(const StudyOptions& options) {
  const bool may_be_light = !options.tuner && options.outlines && !observer_;
  if (!may_be_light || !take_outline()) begin_calls(core_);
  storage_->for_each_event(
      [&](const Event& event) {
        core_.replay(event);
        shown_ = event.id;
        ++resumed_events_;
        ++events_read_;
      },
      resumed_events_);
}

void Study::open(const StudySpec& spec, const StudyOptions& options) {
  storage_ = open_storage(spec.storage,
                          spec.space,
                          core_.description(),
                          {.durable = spec.durable, .lock_patience_s = options.lock_patience_s});
}

Study::~Study() = default;

void Study::begin_tuner() {
  apply([&](StudyCore& core, double now_s) {
    const std::string introduction = core.searcher_introduction();
    core.note(concat(resumed_events_ > 0 ? "resumed" : "started",
                     " by process ",
                     ::getpid(),
                     told_ > 0 ? concat("; told the searcher of ", told_, " trials by Optuna") : "",
                     introduction.empty() ? "" : "; ",
                     introduction),
              now_s,
              /*session=*/true);
    core.recover(now_s);
  });
}

/// What a tuner left running is taken back unless one runs: it would know. What this one writes are
/// paths at the present place, so the log names that first. Who only tells begins no log.
void Study::begin_asker(const StudySpec& spec) {
  const auto is_to_be_named = [this](const StudyCore& core) {
    return core.has_moved() && (suggests_ || core.last_event() > 0);
  };
  if (is_to_be_named(core_)) {
    apply([&](StudyCore& core, double now_s) {
      if (is_to_be_named(core)) core.note_place(now_s);
    });
  }
  if (core_.has_lost_attempts()) {
    apply([&](StudyCore& core, double now_s) {
      if (!core.has_lost_attempts() || running_tuner(spec.storage, spec.name)) return;
      core.note(concat("its tuner is gone; taken up by process ", ::getpid(), ", which asks"),
                now_s,
                /*session=*/true);
      core.recover(now_s);
    });
  }
}

/// Tells the searcher of what Optuna has finished in the file since the last transaction.
void Study::tell_finished() {
  for (ForeignTrial& trial : storage_->finished_trials()) finished_.push_back(std::move(trial));
  told_ = 0;
  for (const ForeignTrial& trial : finished_) {
    if (core_.knows_outside(trial.number)) continue;
    const auto point = full_point(core_.spec().space, trial.params);
    if (!point) continue;
    OutsideTrial outside{.number = trial.number,
                         .point = *point,
                         .state = trial.state,
                         .metric = trial.value,
                         .step = trial.intermediate.empty() ? 0 : trial.intermediate.back().first};
    take_goals(core_.spec().goals, trial, outside);
    told_ += core_.learn(outside, clock_());
  }
}

// ---- Trials that wait ----

void Study::offer_waiting() {
  std::vector<GivenPoint> points;
  for (const WaitingTrial& trial : storage_->waiting_trials()) {
    if (core_.waits_in_vain(trial.number)) continue;
    if (auto point = given_point(trial)) points.push_back(std::move(*point));
  }
  core_.offer(std::move(points));
}

/// Nothing, and a line in the log, for one that is not of this space.
std::optional<GivenPoint> Study::given_point(const WaitingTrial& trial) {
  if (!trial.strange.empty()) {
    core_.note_in_vain(trial.number, trial.strange, clock_());
    return std::nullopt;
  }
  if (is_again(trial)) {
    const Trial& failed = core_.trials()[static_cast<size_t>(*trial.again)];
    return GivenPoint{.partial = has_own_point(trial) ? trial.point : failed.point,
                      .reason = concat("trial ", *trial.again, " once more"),
                      .adopted = trial.number};
  }
  try {
    return GivenPoint{.partial = core_.spec().space.point_of(trial.params),
                      .reason = trial.added ? "added by `muster study add`" : "enqueued by Optuna",
                      .adopted = trial.number};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) throw;
    core_.note_in_vain(trial.number, error.what(), clock_());
    return std::nullopt;
  }
}

}  // namespace muster::tune
