// What a study starts next: retries, what the scheduler orders, new trials.
#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tune/core/study_core.h"
#include "muster/tune/core/study_state.h"

namespace muster::tune {
namespace {

constexpr double kNoMetric = std::numeric_limits<double>::quiet_NaN();

constexpr size_t kMostOlder = 16;  // checkpoints of a trial besides its newest

/// While next() runs.
class Looking {
 public:
  Looking(CheckpointIsThere& place, const CheckpointIsThere& is_there) : place_(place) {
    place_ = is_there;
  }
  ~Looking() { place_ = {}; }
  Looking(const Looking&) = delete;
  Looking& operator=(const Looking&) = delete;

 private:
  CheckpointIsThere& place_;
};

Error bad_order(const StudySpec& spec, const Scheduler::Promotion& order, std::string rule) {
  return internal_error({.refused = concat("an order of scheduler ", spec.scheduler),
                         .rule = std::move(rule),
                         .value = concat("trial ", order.number, ": ", order.reason)});
}

}  // namespace

StudyCore::Next StudyCore::next(double now_s,
                                bool asked,
                                bool elsewhere,
                                const CheckpointIsThere& is_there) {
  const Looking looking(impl_->is_there, is_there);
  Next next;
  impl_->end_leases(now_s);
  if (!is_stopped() &&
      (impl_->start_retry(now_s, asked, next) || impl_->obey_orders(now_s, asked, next) ||
       impl_->start_new(now_s, asked, elsewhere, next) ||
       (impl_->say_last(now_s) && impl_->obey_orders(now_s, asked, next)))) {
    return next;
  }
  return impl_->nothing_to_start(now_s, asked, elsewhere);
}

bool StudyCore::Impl::start_retry(double now_s, bool asked, Next& next) {
  if (retries.empty() || retries.begin()->first > now_s) return false;
  Trial& trial = trials[static_cast<size_t>(retries.begin()->second)];
  // Without a failure it is one that a user lets go on.
  const bool fresh = trial.failure == Failure::kNone;
  start_attempt(
      trial, {.reason = concat(fresh ? "" : "again: ", trial.reason), .asked = asked}, now_s);
  next = {.kind = Next::kStart, .trial = trial.number};
  return true;
}

/// What the scheduler has decided of paused trials, up to the first that goes on.
bool StudyCore::Impl::obey_orders(double now_s, bool asked, Next& next) {
  while (const auto order = scheduler->promote()) {
    const auto number = static_cast<size_t>(order->number);
    if (number >= trials.size() || trials[number].state != TrialState::kPaused)
      throw bad_order(spec, *order, "it names a trial that is paused");
    Trial& trial = trials[number];
    if (!order->end) {
      start_attempt(trial, attempt_of(*order, asked), now_s);
      next = {.kind = Next::kStart, .trial = order->number};
      return true;
    }
    end_attempt(trial,
                {.attempt = trial.attempt,
                 .message = order->reason,
                 .then = order->complete ? TrialState::kComplete : TrialState::kPruned,
                 .ordered = true},
                now_s);
  }
  return false;
}

/// The attempt that an order begins.
AttemptStarted StudyCore::Impl::attempt_of(const Scheduler::Promotion& order, bool asked) const {
  AttemptStarted started{.reason = order.reason, .asked = asked, .donor = order.donor};
  if (order.donor >= 0) {
    const auto donor = static_cast<size_t>(order.donor);
    if (donor >= trials.size() || trials[donor].checkpoint.empty())
      throw bad_order(spec, order, concat("trial ", order.donor, " has a checkpoint to give"));
  }
  if (order.point.empty()) return started;
  started.point = point_of(order);
  started.values = spec.space.resolve(started.point);
  return started;
}

/// Where its point is open although the parameter applies, the trial's own draw.
Point StudyCore::Impl::point_of(const Scheduler::Promotion& order) const {
  if (order.point.size() != spec.space.dimensions().size())
    throw bad_order(spec, order, "its point has a number for each dimension");
  Point point =
      spec.space.with_conditions(draw_open(spec.space, order.point, spec.seed, order.number));
  if (const auto outside = spec.space.outside(point))
    throw bad_order(spec, order, concat("its point is in the space: ", *outside));
  return point;
}

/// No trial is to come, so that brackets which are not full need not wait: for the scheduler, and
/// once until one comes all the same. False: there may be more.
bool StudyCore::Impl::say_last(double now_s) {
  if (last_said || !scheduler->pauses() || (running_count == 0 && paused_count == 0)) return false;
  const bool is_stuck = waiting && running_count == 0 && retries.empty() && held_count == 0;
  if (may_suggest() && !is_stuck) return false;
  no_more_trials(
      {.text = is_stuck ? "the searcher waits for what is paused" : "no more trials are to come",
       .last = true},
      now_s);
  return true;
}

void StudyCore::Impl::no_more_trials(TunerNote note, double now_s) {
  last_said = true;
  scheduler->no_more_trials();
  emit(-1, now_s, std::move(note));
}

bool StudyCore::Impl::may_suggest() const {
  const int64_t planned = variants.trials();
  const int64_t suggested = static_cast<int64_t>(trials.size()) - given_count;
  return !exhausted && (planned < 0 || suggested < planned);
}

/// The searcher's answer for the next trial; nothing while it thinks elsewhere.
std::optional<SearchDesk::Answer> StudyCore::Impl::suggest_next(bool elsewhere, Next& next) {
  const auto number = static_cast<int64_t>(trials.size());
  const Point partial = variants.partial(number - given_count);
  const int64_t known = next_event - 1;
  if (!elsewhere || searcher.is_quick())
    return SearchDesk::Answer{searcher.ask(number, partial), known};
  auto answer = searcher.look(number, partial, known, next.think);
  if (!answer) next.kind = Next::kThink;
  return answer;
}

bool StudyCore::Impl::start_new(double now_s, bool asked, bool elsewhere, Next& next) {
  waiting = false;
  TrialAdded added;
  if (!offered.empty()) {
    added = take_given();
  } else {
    if (!may_suggest()) return false;
    auto answer = suggest_next(elsewhere, next);
    if (!answer) return true;
    Searcher::Suggestion& suggestion = answer->suggestion;
    exhausted = suggestion.kind == Searcher::Suggestion::kFinished;
    waiting = suggestion.kind == Searcher::Suggestion::kWait;
    if (suggestion.kind != Searcher::Suggestion::kPoint) return false;
    added = {.point = spec.space.with_conditions(std::move(suggestion.point)),
             .reason = std::move(suggestion.reason),
             .memo = std::move(suggestion.memo)};
    if (answer->known != next_event - 1) added.known = answer->known;
  }
  add_trial(std::move(added), now_s);
  start_attempt(trials.back(), {.asked = asked}, now_s);
  next = {.kind = Next::kStart, .trial = trials.back().number};
  return true;
}

StudyCore::Next StudyCore::Impl::nothing_to_start(double now_s, bool asked, bool elsewhere) {
  const bool own_run = running_count > static_cast<int64_t>(leases.size());
  if (is_stopped()) return {.kind = own_run ? Next::kWait : Next::kFinished};
  Next next;
  for (const auto* due : {&retries, &leases}) {
    if (due->empty()) continue;
    const double first = due->begin()->first;
    next.wait_until_s = next.wait_until_s > 0 ? std::min(next.wait_until_s, first) : first;
  }
  if (own_run || !retries.empty()) return next;
  if (!leases.empty()) {
    next.for_asked = waiting;
    if (!waiting) next.kind = Next::kHandedOut;
    return next;
  }
  if (held_count > 0) return {.kind = Next::kHeld};
  // The searcher may have waited for the paused ones.
  if (give_up_paused(now_s) && start_new(now_s, asked, elsewhere, next)) return next;
  return {.kind = Next::kFinished};
}

/// Attempts that were asked for and of which nothing was heard: others may have them.
void StudyCore::Impl::end_leases(double now_s) {
  while (!leases.empty() && leases.begin()->first <= now_s) {
    Trial& trial = trials[static_cast<size_t>(leases.begin()->second)];
    const std::string why = concat("nothing was told of it for ", human_duration(spec.ask_lease_s));
    finish_attempt(trial, Failure::kInterrupted, why, now_s);
  }
}

void StudyCore::Impl::renew_lease(const Trial& trial, double now_s) {
  Attempt& attempt = records.at(trial.number).attempt;
  leases.erase({attempt.lease_end_s, trial.number});
  attempt.lease_end_s = now_s + spec.ask_lease_s;
  leases.emplace(attempt.lease_end_s, trial.number);
}

void StudyCore::offer(std::vector<GivenPoint> points) {
  std::erase_if(points, [&](const auto& point) { return impl_->adopted.contains(point.adopted); });
  impl_->offered.assign(std::make_move_iterator(points.begin()),
                        std::make_move_iterator(points.end()));
}

/// What it leaves open is drawn here, so that the searcher need not hear of it before its end.
TrialAdded StudyCore::Impl::take_given() {
  GivenPoint given = std::move(offered.front());
  offered.pop_front();
  const auto number = static_cast<int64_t>(trials.size());
  for (size_t d = 0; d < given.partial.size(); ++d) {
    if (std::isnan(given.partial[d]))
      given.partial[d] = spec.space.draw_dimension(d, spec.seed, number);
  }
  return {.point = spec.space.with_conditions(std::move(given.partial)),
          .reason = std::move(given.reason),
          .given = true,
          .adopted = given.adopted};
}

/// Ends the trials that wait for a promotion which no other trial can bring any more. Returns
/// whether there were any.
bool StudyCore::Impl::give_up_paused(double now_s) {
  bool any = false;
  for (Trial& trial : trials) {
    if (trial.state != TrialState::kPaused) continue;
    any = true;
    end_attempt(trial,
                {.attempt = trial.attempt, .message = trial.reason, .then = TrialState::kPruned},
                now_s);
  }
  return any;
}

/// The values are made of the point here.
void StudyCore::Impl::add_trial(TrialAdded added, double now_s) {
  added.values = spec.space.resolve(added.point);
  Trial trial{.number = static_cast<int64_t>(trials.size()),
              .point = added.point,
              .values = added.values,
              .last_metric = kNoMetric,
              .best_metric = kNoMetric,
              .goals = no_values(spec.goals)};
  trials.push_back(std::move(trial));
  const int64_t number = trials.back().number;
  records.try_emplace(number);
  if (added.given) ++given_count;
  if (added.adopted >= 0) adopted.insert(added.adopted);
  if (!added.given) searcher.suggested(number, added.point, added.memo);
  last_said = false;
  scheduler->on_start(number, trials.back().point);
  emit(number, now_s, std::move(added));  // behind all calls that belong to it
}

/// Another checkpoint is the trial's newest.
void StudyCore::Impl::come_to(Trial& trial, SavedState saved) {
  auto& older = records.at(trial.number).older;
  std::erase_if(older, [&](const SavedState& one) { return one.checkpoint == saved.checkpoint; });
  if (!trial.checkpoint.empty() && trial.checkpoint != saved.checkpoint)
    older.push_back({.checkpoint = trial.checkpoint, .t = trial.checkpoint_t});
  if (older.size() > kMostOlder) older.pop_front();
  trial.checkpoint = std::move(saved.checkpoint);
  trial.checkpoint_t = saved.t;
  scheduler->on_checkpoint(trial.number, trial.checkpoint_t);
}

/// The trial goes on from what another one has saved.
void StudyCore::Impl::take_over(Trial& trial, int64_t number) {
  const Trial& donor = trials[static_cast<size_t>(number)];
  const auto record = records.find(number);
  records.at(trial.number).older =
      record == records.end() ? std::deque<SavedState>() : record->second.older;
  trial.checkpoint = donor.checkpoint;
  trial.checkpoint_t = donor.checkpoint_t;
  ++trial.copies;
  scheduler->on_checkpoint(trial.number, trial.checkpoint_t);
}

/// To the newest checkpoint that is still there, if any is.
void StudyCore::Impl::go_back(Trial& trial, AttemptStarted& started) {
  if (!is_there || trial.checkpoint.empty() || is_there(trial.checkpoint)) return;
  auto& older = records.at(trial.number).older;
  while (!older.empty() && !is_there(older.back().checkpoint)) older.pop_back();
  SavedState saved;
  if (!older.empty()) {
    saved = std::move(older.back());
    older.pop_back();
  }
  started.reason += concat(started.reason.empty() ? "" : "; ",
                           "its checkpoint ",
                           trial.checkpoint,
                           " is not there any more",
                           saved.checkpoint.empty() ? ": it begins anew" : "");
  trial.checkpoint = std::move(saved.checkpoint);
  trial.checkpoint_t = saved.t;
  scheduler->on_checkpoint(trial.number, trial.checkpoint_t);
}

/// `started` says why, for whom, and what of the trial changes; the rest is filled in here.
void StudyCore::Impl::start_attempt(Trial& trial, AttemptStarted started, double now_s) {
  const bool was_paused = trial.state == TrialState::kPaused;
  const bool goes_on =
      was_paused || spec.failures[static_cast<size_t>(trial.failure)].from_checkpoint;
  if (!goes_on && !trial.checkpoint.empty()) {
    trial.checkpoint.clear();
    records.at(trial.number).older.clear();
    scheduler->on_checkpoint(trial.number, 0);
  }
  if (started.donor >= 0) take_over(trial, started.donor);
  go_back(trial, started);
  if (!started.point.empty()) {
    trial.point = started.point;
    trial.values = started.values;
  }
  retries.erase({trial.due_s, trial.number});
  trial.state = TrialState::kRunning;
  ++trial.attempt;
  if (trial.attempt == 1) trial.started_s = now_s;
  trial.attempt_s = now_s;
  trial.asked = started.asked;
  TrialRecord& record = records.at(trial.number);
  unlogged.erase(trial.number);
  record.attempt = {.started_s = now_s,
                    .base_t = trial.checkpoint.empty() ? 0 : trial.checkpoint_t,
                    .asked = started.asked};
  record.decision = {};
  record.by_user = false;
  record.fails.reset();
  ++running_count;
  if (started.asked) renew_lease(trial, now_s);
  if (was_paused) {
    --paused_count;
    scheduler->on_resume(trial.number, trial.point);
  }
  started.attempt = trial.attempt;
  started.from_checkpoint = trial.checkpoint;
  emit(trial.number, now_s, std::move(started));
}

}  // namespace muster::tune
