// A study from its log: StudyCore::replay and recover, and what a resumed study may change.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/tune/core/description.h"
#include "muster/tune/core/study_core.h"
#include "muster/tune/core/study_state.h"

namespace muster::tune {
namespace {

bool same_number(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

bool same_point(const Point& a, const Point& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), &same_number);
}

/// The same but for what another libm makes of a logarithm.
bool near(const Point& a, const Point& b) {
  constexpr double kRounding = 1e-9;
  const auto alike = [](double x, double y) {
    return same_number(x, y) || std::abs(x - y) <= kRounding * std::max(std::abs(x), std::abs(y));
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), alike);
}

bool same_stored_value(const Value& a, const Value& b) {
  return a.is_double() && b.is_double() ? same_number(a.as_double(), b.as_double()) : a == b;
}

[[noreturn]] void differs(const Event& event, const std::string& stored, const std::string& now) {
  throw internal_error({.refused = concat("event ", event.id, " of the study does not replay"),
                        .rule = "the same calls give the same decisions",
                        .value = concat("stored: ", stored, "; now: ", now),
                        .hint = "was the study made by another version of Muster, or with other "
                                "stop criteria?"});
}

std::string words(const Decision& decision) {
  return concat(name_of(decision.action), decision.reason.empty() ? "" : ", ", decision.reason);
}

}  // namespace

/// Applies stored events to a core; one function per kind.
class StudyReplay {
 public:
  StudyReplay(StudyCore::Impl& core, const Event& event) : core_(core), event_(event) {}

  void operator()(const TrialAdded& added) {
    if (event_.trial != static_cast<int64_t>(core_.trials.size()))
      differs(event_, concat("trial ", event_.trial), concat("trial ", core_.trials.size()));
    check_point(added.point);
    if (!added.given) check_fixed(added.point);
    core_.add_trial(added, event_.time_s);
    check_values(core_.trials.back().values, added.values);
    core_.trials.back().values = added.values;
  }

  void operator()(const AttemptStarted& started) {
    Trial& trial = trial_of_event();
    if (trial.state == TrialState::kPaused) {
      check_order(order_of(trial.number, /*end=*/false), started);
    } else if (started.donor >= 0 || !started.point.empty()) {
      differs(event_, "it goes on as another", "it is not paused");
    }
    // Which checkpoints were there then, the log knows alone.
    core_.is_there = [&](const std::string& path) { return path == started.from_checkpoint; };
    core_.start_attempt(trial, started, event_.time_s);
    core_.is_there = {};
  }

  void operator()(const Reported& reported) {
    Trial& trial = core_.running(event_.trial);
    // What a restarted trial repeated before this is not in the log, but was counted.
    TrialRecord& record = core_.records.at(trial.number);
    if (!reported.report.step) record.attempt.counted = reported.t - record.attempt.base_t - 1;
    const Decision decision = core_.take_report(trial, record, reported.report, event_.time_s);
    if (decision != reported.decision) differs(event_, words(reported.decision), words(decision));
  }

  void operator()(const AttemptEnded& ended) {
    Trial& trial = trial_of_event();
    if (ended.ordered && trial.state == TrialState::kPaused) order_of(trial.number, /*end=*/true);
    core_.end_attempt(trial, ended, event_.time_s);
  }

  void operator()(const StopOrdered& stop) {
    core_.stop_trial(core_.running(event_.trial), stop.reason, event_.time_s);
  }

  void operator()(const PauseOrdered& pause) {
    core_.pause_trial(core_.running(event_.trial), pause.reason, event_.time_s);
  }

  void operator()(const ContinueOrdered& order) {
    Trial& trial = trial_of_event();
    if (!trial.held && !core_.is_about_to_pause(trial.number))
      differs(event_, "it goes on", "no user has paused it");
    core_.continue_trial(trial, order.reason, event_.time_s);
  }

  void operator()(const TunerNote& note) {
    if (event_.trial >= 0) core_.mark_stopped(core_.running(event_.trial), note.text);
    if (note.last) return core_.no_more_trials(note, event_.time_s);
    core_.emit(event_.trial, event_.time_s, note);
  }

  void operator()(const OutsideTrial& trial) { core_.learn(trial, event_.time_s); }

  void operator()(const CheckpointSaved& saved) {
    Trial& trial = core_.running(event_.trial);
    Attempt& attempt = core_.records.at(trial.number).attempt;
    attempt.t = saved.t;
    attempt.counted = saved.t - attempt.base_t;
    if (attempt.asked) core_.renew_lease(trial, event_.time_s);
    core_.save_checkpoint(trial, saved, event_.time_s);
  }

 private:
  /// Whoever made the point made one of the space.
  void check_point(const Point& point) const {
    const size_t wanted = core_.spec.space.dimensions().size();
    if (point.size() != wanted)
      differs(event_, concat(point.size(), " numbers"), concat(wanted, " dimensions"));
    if (const auto outside = core_.spec.space.outside(point))
      differs(event_, *outside, "no such point");
    if (!same_point(core_.spec.space.with_conditions(point), point))
      differs(event_, "another point", "what applies");
  }

  /// The grid's part of it and that of the points to evaluate are nobody's to choose.
  void check_fixed(const Point& point) const {
    const auto number = static_cast<int64_t>(core_.trials.size()) - core_.given_count;
    const Point fixed = core_.variants.partial(number);
    for (size_t d = 0; d < point.size() && !core_.spec.constant_grid_search; ++d) {
      if (!std::isnan(fixed[d]) && !std::isnan(point[d]) && fixed[d] != point[d])
        differs(event_,
                shortest(point[d]),
                concat(core_.spec.space.dimensions()[d].name, " = ", shortest(fixed[d])));
    }
  }

  /// The scheduler's order for a trial, which it gives here or nowhere.
  Scheduler::Promotion order_of(int64_t trial, bool end) const {
    auto order = core_.scheduler->promote();
    if (!order || order->number != trial || order->end != end)
      differs(event_, concat("trial ", trial, end ? " ends" : " goes on"), "another one");
    return *order;
  }

  void check_order(const Scheduler::Promotion& order, const AttemptStarted& stored) const {
    if (order.donor != stored.donor)
      differs(event_, concat("donor ", stored.donor), concat("donor ", order.donor));
    if (order.point.empty() != stored.point.empty()) differs(event_, "its point", "another");
    if (stored.point.empty()) return;
    check_point(stored.point);
    if (!near(core_.point_of(order), stored.point)) differs(event_, "another point", "the order's");
    check_values(core_.spec.space.resolve(stored.point), stored.values);
  }

  /// A C++ function in the space may not repeat itself, so what is stored counts. Else values
  /// follow from the point: that they do is checked, since a further attempt is started with them.
  void check_values(const Values& values, const Values& stored) const {
    const auto parameters = core_.spec.space.parameters();
    if (stored.size() != values.size())
      differs(event_, concat(stored.size(), " values"), concat(values.size(), " parameters"));
    for (size_t i = 0; i < values.size() && !core_.has_functions; ++i) {
      if (same_stored_value(values[i], stored[i])) continue;
      differs(event_,
              concat(parameters[i].name, " = ", value_text(stored[i])),
              concat(parameters[i].name, " = ", value_text(values[i])));
    }
  }

  Trial& trial_of_event() {
    if (event_.trial < 0 || event_.trial >= static_cast<int64_t>(core_.trials.size()))
      differs(event_, concat("trial ", event_.trial), "no such trial");
    return core_.trials[static_cast<size_t>(event_.trial)];
  }

  StudyCore::Impl& core_;
  const Event& event_;
};

void StudyCore::replay(const Event& event) {
  if (event.id != impl_->next_event)
    differs(event, concat("event ", event.id), concat("event ", impl_->next_event));
  if (impl_->folders.has_places_before()) {
    Event moved = event;
    impl_->folders.put_right(moved);
    std::visit(StudyReplay(*impl_, moved), moved.what);
  } else {
    std::visit(StudyReplay(*impl_, event), event.what);
  }
  if (impl_->events.size() != 1) differs(event, "one event", concat(impl_->events.size()));
  impl_->events.clear();
}

void StudyCore::recover(double now_s) {
  for (Trial& trial : impl_->trials) {
    if (trial.state != TrialState::kRunning || impl_->records.at(trial.number).attempt.asked)
      continue;
    impl_->finish_attempt(trial, Failure::kInterrupted, "its tuner was gone", now_s);
  }
}

bool StudyCore::has_lost_attempts() const {
  return impl_->running_count > static_cast<int64_t>(impl_->leases.size());
}

Unlogged StudyCore::unlogged() const {
  Unlogged out{.stopped = impl_->stopped};
  for (const int64_t number : impl_->unlogged) {
    const Attempt& attempt = impl_->records.at(number).attempt;
    out.attempts.push_back({.trial = number,
                            .attempt = trials()[static_cast<size_t>(number)].attempt,
                            .t = attempt.t,
                            .counted = attempt.counted,
                            .sequence = attempt.sequence,
                            .refused = attempt.refused});
  }
  return out;
}

void StudyCore::restore(const Unlogged& unlogged) {
  impl_->stopped = unlogged.stopped;
  for (const Unlogged::Attempt& known : unlogged.attempts) {
    const auto record = impl_->records.find(known.trial);
    if (record == impl_->records.end()) continue;
    const Trial& trial = trials()[static_cast<size_t>(known.trial)];
    if (trial.state != TrialState::kRunning || trial.attempt != known.attempt) continue;
    Attempt& attempt = record->second.attempt;
    if (known.t < attempt.t) continue;  // somebody else has reported of it since
    attempt.t = known.t;
    attempt.counted = known.counted;
    attempt.sequence = known.sequence;
    attempt.refused = known.refused;
    impl_->unlogged.insert(known.trial);
  }
}

// ---- The description ----

Json StudyCore::description() const {
  const StudySpec& spec = impl_->spec;
  Json points = Json::array();
  for (const auto& point : spec.points_to_evaluate) {
    Json one = Json::object();
    for (const auto& [name, value] : point) one[name] = to_json(value);
    points.push_back(std::move(one));
  }
  Json description = {{"name", spec.name},
                      {"metric", spec.metric},
                      {"mode", name_of(spec.mode)},
                      {"scope", spec.scope == StudySpec::Scope::kBest ? "best" : "last"},
                      {"searcher", spec.searcher},
                      {"scheduler", spec.scheduler},
                      {"seed", spec.seed},
                      {"constant_grid_search", spec.constant_grid_search},
                      {"points_to_evaluate", std::move(points)},
                      {"space", spec.space.description()}};
  describe_goals(spec.goals, description);
  describe_rules(spec, description);
  return description;
}

}  // namespace muster::tune
