#include "muster/tune/core/study_core.h"

#include <algorithm>
#include <cmath>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tune/core/heard_scheduler.h"
#include "muster/tune/core/study_state.h"
#include "muster/tune/objective/domination.h"

namespace muster::tune {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// In place of the searcher where nobody asks for trials.
class Deaf final : public Searcher {
 public:
  Suggestion suggest(int64_t number, const Point& /*partial*/) override {
    throw internal_error({.refused = concat("trial ", number, " of a study that suggests none")});
  }
  bool has_history() const override { return false; }
};

/// An object of the caller's own.
template <class Make, class Context>
auto made(const Make& make,
          const Context& context,
          std::string_view kind,
          const std::string& name) {
  auto object = make(context);
  if (object) return object;
  throw usage_error({.refused = concat(kind, ' ', name), .rule = "its function makes one"});
}

template <class Table, class Takes>
std::string those_that(const Table& table, Takes takes) {
  std::vector<std::string> names;
  for (const auto* entry : table) {
    if (takes(*entry)) names.emplace_back(entry->name);
  }
  return concat("these do not mind: ", join(names, ", "));
}

void check_searcher(const StudySpec& spec) {
  if (spec.own_searcher || !spec.goals.any()) return;
  const std::string name = parse_spec(spec.searcher).name;
  if (searchers().at(name).takes_goals) return;
  throw usage_error(
      {.refused = concat("searcher ",
                         name,
                         spec.goals.several() ? " in a study of several objectives"
                                              : " in a study with constraints"),
       .rule = "it learns from one score alone",
       .hint = those_that(searchers(), [](const auto& entry) { return entry.takes_goals; })});
}

[[noreturn]] void refuse_several(const std::string& scheduler, const StudySpec& spec) {
  const std::string among = "in a study of several objectives";
  if (schedulers().at(scheduler).has_of()) {
    throw usage_error({.refused = concat("scheduler ", scheduler, ' ', among),
                       .rule = "`of` says which one it goes by",
                       .hint = concat("for example ", scheduler, ":of=", spec.metric)});
  }
  std::vector<std::string> watchers;
  for (const auto* entry : schedulers()) {
    if (entry->has_of()) watchers.push_back(concat(entry->name, ":of=", spec.metric));
  }
  throw usage_error(
      {.refused = concat("scheduler ", scheduler, ' ', among),
       .rule = "it goes by one score",
       .hint =
           concat(those_that(schedulers(), [](const auto& entry) { return entry.takes_several; }),
                  "; these go by one of them: ",
                  join(watchers, ", "))});
}

/// The objective that the scheduler's `of` names; nothing if it names none and needs not.
std::optional<Objective> named_by_scheduler(const StudySpec& spec) {
  if (spec.own_scheduler) return std::nullopt;
  const auto [name, params] = parse_spec(spec.scheduler);
  const SchedulerEntry& entry = schedulers().at(name);
  const auto of = entry.has_of() ? params.find(kOf) : params.end();
  if (of == params.end()) {
    if (spec.goals.several() && !entry.takes_several) refuse_several(name, spec);
    return std::nullopt;
  }
  const std::vector<Objective> all = spec.goals.several()
                                         ? spec.goals.objectives
                                         : std::vector<Objective>{{spec.metric, spec.mode}};
  std::vector<std::string> names;
  for (const Objective& objective : all) {
    if (objective.metric == of->second) return objective;
    names.push_back(objective.metric);
  }
  throw usage_error({.refused = concat("scheduler ", name, ": of"),
                     .rule = concat(names.size() == 1 ? "it is the study's metric, "
                                                      : "it is one of the study's objectives, ",
                                    join(names, " or ")),
                     .value = concat('"', of->second, '"'),
                     .hint = suggestion(of->second, names)});
}

}  // namespace

StudyCore::Impl::Impl(const StudySpec& given, bool suggests)
    : spec(given),
      has_functions(!spec.space.opaque().empty()),
      variants(spec),
      rules(spec),
      checkpoints(spec.keep_checkpoints),
      folders(spec.trial_folder),
      searcher(
          spec.space,
          [&](const Space& space) {
            std::unique_ptr<Searcher> made = searcher_in(space);  // also refuses what is wrong
            searcher_learns = made->has_history();
            if (!suggests) made = std::make_unique<Deaf>();
            return made;
          },
          &heard) {
  scheduler = located(spec, "scheduler", [&] {
    const std::optional<Objective> named = named_by_scheduler(spec);
    goes_by_one = named || !spec.goals.several();
    watched = named.value_or(Objective{spec.metric, spec.mode});
    const SchedulerContext of_scheduler{.seed = spec.seed,
                                        .mode = watched.mode,
                                        .metric = watched.metric,
                                        .space = spec.space,
                                        .planned_trials = variants.trials()};
    auto one = spec.own_scheduler
                   ? made(spec.own_scheduler, of_scheduler, "scheduler", spec.scheduler)
                   : make_scheduler(spec.scheduler, of_scheduler);
    return std::make_unique<HeardScheduler>(std::move(one), heard);
  });
}

std::unique_ptr<Searcher> StudyCore::Impl::searcher_in(const Space& space) const {
  const SearcherContext context{.space = space,
                                .seed = spec.seed,
                                .num_samples = variants.trials(),
                                .mode = spec.mode,
                                .metric = spec.metric,
                                .objectives = spec.goals.objectives,
                                .slots = spec.max_concurrent,
                                .has_constraints = !spec.goals.constraints.empty()};
  return located(spec, "searcher", [&] {
    check_searcher(spec);
    return spec.own_searcher ? made(spec.own_searcher, context, "searcher", spec.searcher)
                             : make_searcher(spec.searcher, context);
  });
}

StudyCore::StudyCore(const StudySpec& spec, bool suggests)
    : impl_(std::make_unique<Impl>(spec, suggests)) {}
StudyCore::~StudyCore() = default;
StudyCore::StudyCore(StudyCore&&) noexcept = default;
StudyCore& StudyCore::operator=(StudyCore&&) noexcept = default;

Event& StudyCore::Impl::emit(int64_t trial, double now_s, decltype(Event::what) what) {
  events.push_back({.id = next_event++, .time_s = now_s, .trial = trial, .what = std::move(what)});
  note_time(events.back());
  checkpoints.add(events.back());
  if (const auto* note = std::get_if<TunerNote>(&events.back().what)) {
    take_note(*note);
    folders.put_right(events.back());
  }
  return events.back();
}

/// A session lasts to the last thing that happened to a trial of its own: a tuner that is killed
/// says nothing at its end, and others who ask may go on for long.
void StudyCore::Impl::note_time(const Event& event) {
  if (!born_s) born_s = event.time_s;
  if (const auto* note = std::get_if<TunerNote>(&event.what); note != nullptr && note->session) {
    used_s += session_last_s - session_start_s;
    session_start_s = session_last_s = event.time_s;
    return;
  }
  if (event.trial < 0 || std::holds_alternative<TrialAdded>(event.what)) return;
  const auto record = records.find(event.trial);
  if (record != records.end() && !record->second.attempt.asked)
    session_last_s = std::max(session_last_s, event.time_s);
}

void StudyCore::Impl::take_note(const TunerNote& note) {
  if (note.in_vain >= 0) in_vain.insert(note.in_vain);
  if (!note.session && !note.forgives) return;
  failed = 0;
  given_up.clear();
}

Trial& StudyCore::Impl::running(int64_t number) {
  if (number < 0 || number >= static_cast<int64_t>(trials.size()) ||
      trials[static_cast<size_t>(number)].state != TrialState::kRunning) {
    throw usage_error({.refused = concat("a message of trial ", number),
                       .rule = "the trial is running",
                       .hint = "a program that goes on after its end should stop"});
  }
  return trials[static_cast<size_t>(number)];
}

// ---- What is known ----

bool StudyCore::Impl::is_better(double metric, double than) const {
  return score_of(metric, spec.mode) > score_of(than, spec.mode);
}

double StudyCore::Impl::result_of(const Trial& trial) const {
  return spec.scope == StudySpec::Scope::kBest ? trial.best_metric : trial.last_metric;
}

/// What a trial that ends has never reported a number of, of what the goals name.
std::string StudyCore::Impl::missing_results(const Trial& trial) const {
  return spec.goals.any() ? trial.goals.missing(spec.goals) : "";
}

void StudyCore::Impl::note_front(const Trial& trial) {
  if (trial.state != TrialState::kComplete || !trial.goals.is_feasible() ||
      !trial.goals.has_all_results())
    return;
  const auto losses_of = [&](const Trial& one) {
    Losses losses = scores_of(one.goals.results, spec.goals.objectives);
    for (double& loss : losses) loss = -loss;
    return losses;
  };
  const Losses mine = losses_of(trial);
  std::vector<int64_t> left = {trial.number};
  for (const int64_t number : front) {
    const Losses other = losses_of(trials[static_cast<size_t>(number)]);
    if (dominates(other, mine)) return;
    if (!dominates(mine, other)) left.push_back(number);
  }
  std::ranges::sort(left);
  front = std::move(left);
}

void StudyCore::Impl::note_best(const Trial& trial) {
  if (trial.state == TrialState::kComplete) any_results = true;
  if (spec.goals.several()) return note_front(trial);
  if (!trial.goals.is_feasible()) return;
  const double result = result_of(trial);
  if (trial.state == TrialState::kFailed || std::isnan(result)) return;
  const double so_far = best < 0 ? kNan : result_of(trials[static_cast<size_t>(best)]);
  // Of equal ones the first, whatever the order in which they ended: as `muster study best`.
  if (best < 0 || is_better(result, so_far) || (result == so_far && trial.number < best))
    best = trial.number;
}

/// The best so far is asked for with each line of a study that only fails: nothing is looked through
/// for it. Trials that are over without a result are out, all others have a record.
void StudyCore::Impl::note_so_far(const Trial& trial) {
  if (best >= 0 || spec.goals.several()) return so_far.clear();
  TrialRecord& record = records.at(trial.number);
  if (record.rank) so_far.erase({*record.rank, trial.number});
  record.rank.reset();
  const double result = result_of(trial);
  if (is_over(trial.state) || std::isnan(result) || !trial.goals.is_feasible()) return;
  record.rank = -score_of(result, spec.mode);
  so_far.emplace(*record.rank, trial.number);
}

const Trial* StudyCore::best() const {
  if (impl_->best >= 0) return &impl_->trials[static_cast<size_t>(impl_->best)];
  if (impl_->so_far.empty()) return nullptr;
  return &impl_->trials[static_cast<size_t>(impl_->so_far.begin()->second)];
}

std::span<const int64_t> StudyCore::front() const { return impl_->front; }
double StudyCore::result(const Trial& trial) const { return impl_->result_of(trial); }
int64_t StudyCore::planned_trials() const {
  const int64_t planned = impl_->variants.trials();
  return planned < 0 ? planned : planned + impl_->given_count;
}

const std::string& StudyCore::stop_reason() const {
  return impl_->stopped.empty() ? impl_->given_up : impl_->stopped;
}
bool StudyCore::has_given_up() const { return impl_->stopped.empty() && !impl_->given_up.empty(); }
bool StudyCore::knows_outside(int64_t optuna_number) const {
  return impl_->outside.contains(optuna_number);
}
bool StudyCore::waits_in_vain(int64_t optuna_number) const {
  return impl_->in_vain.contains(optuna_number);
}
double StudyCore::used_s() const { return impl_->used_s; }
std::string StudyCore::identity() const {
  return impl_->born_s ? concat(spec().name, " of ", shortest(*impl_->born_s)) : "";
}

std::optional<double> StudyCore::began_s() const { return impl_->born_s; }

bool StudyCore::is_asked(int64_t trial) const {
  const auto record = impl_->records.find(trial);
  return record != impl_->records.end() && record->second.attempt.asked &&
         trials()[static_cast<size_t>(trial)].state == TrialState::kRunning;
}

std::vector<std::string> StudyCore::take_needless_checkpoints() {
  return impl_->checkpoints.take_needless();
}
void StudyCore::discard_events() { impl_->events.clear(); }
std::vector<Event> StudyCore::take_events() { return std::exchange(impl_->events, {}); }
std::vector<Trial> StudyCore::take_trials() && { return std::move(impl_->trials); }
std::span<const Trial> StudyCore::trials() const { return impl_->trials; }
const StudySpec& StudyCore::spec() const { return impl_->spec; }
std::string StudyCore::scheduler_status() const { return impl_->scheduler->status(); }
std::string StudyCore::searcher_introduction() const { return impl_->searcher.introduction(); }

}  // namespace muster::tune
