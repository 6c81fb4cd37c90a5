#include "muster/tune/run/tuner.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tune/core/stop_rules.h"
#include "muster/tune/run/checkpoint_files.h"
#include "muster/tune/run/deeds.h"
#include "muster/tune/run/obey.h"
#include "muster/tune/run/patience.h"
#include "muster/tune/run/thinking.h"
#include "muster/tune/run/tuner_words.h"

namespace muster::tune {
namespace {

constexpr double kLookS = 1;      // between looks at what other processes have appended
constexpr double kThinkS = 0.01;  // between looks at whether the searcher has thought

class Tuner {
 public:
  Tuner(Study& study,
        const StudySpec& spec,
        Executor& executor,
        ResourcePool& pool,
        const TunerView& view)
      : study_(study),
        spec_(spec),
        executor_(executor),
        pool_(pool),
        view_(view),
        started_s_(study.now_s()) {}

  TunerOutcome run() {
    try {
      run_to_the_end();
    } catch (const Patience::Lost& lost) {
      end_unstored(lost.why);
    } catch (
        const Error& error) {  // patience ended; whoever wished the end gets what was asked for
      if (error.kind() != ErrorKind::kEnvironment || !is_ending_by_wish()) throw;
      note(error.what());
      end_unstored(outcome_.interrupted ? outcome_.stopped : patience_.wish());
    }
    tick(/*now=*/true);
    return outcome_;
  }

 private:
  bool is_ending_by_wish() const { return outcome_.interrupted || !patience_.wish().empty(); }

  void end_unstored(const std::string& why) {
    note("nothing more can be stored: ending; what trials were told is stored");
    outcome_.interrupted = true;
    outcome_.stopped = why;
  }

  void run_to_the_end() {
    stop_if_over_budget();  // used up by tuners before
    tidy_up();
    while (true) {
      const StudyCore::Next next = fill_slots();
      stop_if_given_up();
      if (has_ended(next)) return;
      tick();
      kept_ = patience_.has_events();
      on_events(kept_ ? patience_.take_events() : executor_.wait(wait_s(next)));
      stop_if_over_budget();
      look_around();
    }
  }

  bool has_ended(const StudyCore::Next& next) {
    if (!shares_.empty()) return false;
    note_held(next.kind == StudyCore::Next::kHeld);
    note_asked(next.for_asked);
    if (next.kind == StudyCore::Next::kHandedOut) note(study_.look(&handed_out));
    return next.kind == StudyCore::Next::kFinished || next.kind == StudyCore::Next::kHandedOut;
  }

  /// A user who holds all that is left is waited for: said once each time.
  void note_held(bool held) {
    if (held && !std::exchange(held_, true))
      note("all that is left is paused by a user: `muster study continue` or `stop` ends the wait");
    if (!held) held_ = false;
  }

  /// The same of trials that the searcher must hear of before it suggests more.
  void note_asked(bool waits) {
    if (!std::exchange(waits_for_asked_, waits) && waits) note(study_.look(&waits_for));
  }

  /// What other processes have done with the study meanwhile.
  void look_around() {
    if (spec_.storage.empty() || study_.now_s() - looked_s_ < kLookS) return;
    looked_s_ = study_.now_s();
    patiently([&] { study_.catch_up(); });
    has_news_ = true;
  }

  /// Trials fail, so that the core wants no more of them.
  void stop_if_given_up() {
    if (!outcome_.stopped.empty()) return;
    const bool given_up = study_.look([&](const StudyCore& core) {
      if (core.has_given_up()) outcome_.stopped = core.stop_reason();
      return core.has_given_up();
    });
    if (!given_up) return;
    outcome_.failed = true;
    stop_running(outcome_.stopped, /*kill=*/false);
  }

  /// Starts trials while they fit. The last answer of the core: why no more were started.
  StudyCore::Next fill_slots() {
    StudyCore::Next next;
    while (spec_.max_concurrent == 0 ||
           static_cast<int64_t>(shares_.size()) < spec_.max_concurrent) {
      if (thinker_.is_busy() && !has_news_) return {.kind = StudyCore::Next::kThink};
      auto share = pool_.try_acquire();
      if (!share) return next;
      AttemptPlan plan;
      stored([&](StudyCore& core, double now_s) {
        next = core.next(now_s, /*asked=*/false, /*elsewhere=*/true, is_there_);
        if (next.kind == StudyCore::Next::kStart) plan = plan_of(core, next.trial, *share);
      });
      if (next.kind != StudyCore::Next::kStart) {
        pool_.give_back(*share);
        has_news_ = false;
        if (next.think && thinker_.begin(std::move(next.think))) continue;
        return next;
      }
      shares_.emplace(plan.trial, *share);
      starting_ = plan.trial;
      patiently([&] { executor_.start(plan); });  // makes a folder and files
      starting_ = -1;
    }
    return next;
  }

  AttemptPlan plan_of(const StudyCore& core, int64_t number, const ResourcePool::Share& share) {
    const Trial& trial = core.trials()[static_cast<size_t>(number)];
    AttemptPlan plan{.trial = number,
                     .attempt = trial.attempt,
                     .values = trial.values,
                     .resources = spec_.resources_per_trial};
    for (const size_t gpu : share.gpus) plan.device_ids.push_back(pool_.machine().gpus[gpu]);
    plan.checkpoint_folder = spec_.trial_folder / concat("trial-", number) / "checkpoints";
    plan.copies = trial.copies;
    plan.resume_from = trial.checkpoint;
    return plan;
  }

  /// How long nothing can become due.
  double wait_s(const StudyCore::Next& next) const {
    const double now_s = study_.now_s();
    double wait = -1;
    const auto until = [&](double when_s) {
      const double left = std::max(0.0, when_s - now_s);
      wait = wait < 0 ? left : std::min(wait, left);
    };
    if (next.kind == StudyCore::Next::kWait && next.wait_until_s > 0) until(next.wait_until_s);
    if (next.kind == StudyCore::Next::kThink) until(now_s + kThinkS);
    if (spec_.time_budget_s > 0 && outcome_.stopped.empty()) until(budget_end_s());
    if (view_.tick) until(last_tick_s_ + view_.tick_s);
    if (!spec_.storage.empty()) until(looked_s_ + kLookS);
    return wait;
  }

  /// What came together is stored together; only then is anybody answered.
  void on_events(const std::vector<ExecutorEvent>& events) {
    if (events.empty()) return;
    Deeds deeds;
    stored([&](StudyCore& core, double now_s) {
      deeds = {.refused = refused_};
      for (const ExecutorEvent& event : events) on_event(core, event, now_s, deeds);
    });
    carry_out(deeds);
  }

  /// Before anybody is answered: whoever hears of a checkpoint's storing may write the next one.
  void tidy_up() {
    if (spec_.keep_checkpoints == 0) return;
    const std::string fault =
        remove_checkpoints(study_.take_needless_checkpoints(), spec_.trial_folder);
    if (!fault.empty()) note(fault);
  }

  void carry_out(Deeds& deeds) {
    tidy_up();
    refused_ = std::move(deeds.refused);
    for (const std::string& line : deeds.notes) note(line);
    for (const int64_t trial : deeds.ended) {
      told_to_end_.erase(trial);
      if (const auto share = shares_.find(trial); share != shares_.end()) {
        pool_.give_back(share->second);
        shares_.erase(share);
      }
    }
    for (const HeldAnswer& answer : deeds.answers) {
      if (const auto* decision = std::get_if<Decision>(&answer.what)) {
        executor_.answer(answer.token, *decision);
      } else {
        executor_.reject(answer.token, std::get<std::string>(answer.what));
      }
    }
    for (const auto& [why, kill] : deeds.interrupts) {
      outcome_.interrupted = true;
      outcome_.stopped = why;
      stop_running(why, kill);
    }
    for (const auto& [trial, why] : deeds.stopped) {
      if (shares_.contains(trial)) executor_.stop(trial, why, /*kill=*/false);
    }
  }

  void on_event(StudyCore& core, const ExecutorEvent& event, double now_s, Deeds& deeds) {
    switch (event.kind) {
      case ExecutorEvent::kReport:
        deeds.answers.push_back({event.token, decide(core, event, now_s, deeds)});
        break;
      case ExecutorEvent::kEnded:
        core.ended(event.trial, failure_of(event), event.message, now_s);
        deeds.ended.push_back(event.trial);
        break;
      case ExecutorEvent::kOrder:
        deeds.answers.push_back({event.token, obey(core, event, now_s)});
        if (event.action == Action::kStop &&
            std::holds_alternative<Decision>(deeds.answers.back().what))
          deeds.stopped.emplace_back(event.trial, event.message);
        break;
      case ExecutorEvent::kStopStudy:
      case ExecutorEvent::kInterrupt:
        interrupt(core, event.message, now_s, deeds);
        break;
      case ExecutorEvent::kNote:
        deeds.notes.push_back(event.message);
        break;
    }
  }

  /// One that was told to end because the study does has not ended by itself.
  Failure failure_of(const ExecutorEvent& event) const {
    return event.failure == Failure::kNone && told_to_end_.contains(event.trial)
               ? Failure::kInterrupted
               : event.failure;
  }

  std::variant<Decision, std::string> decide(StudyCore& core,
                                             const ExecutorEvent& event,
                                             double now_s,
                                             Deeds& deeds) {
    try {
      check_checkpoint(core, event);
      Report report = event.report;
      report.sequence = 0;  // clients number their own; the executor answers what they repeat
      Decision decision = core.report(event.trial, report, now_s);
      if (!std::exchange(any_report_, true)) {
        std::string line = unreported_constraints(spec_, event.trial, report);
        if (!line.empty()) deeds.notes.push_back(std::move(line));
      }
      return decision;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUsage) throw;
      // Once per attempt: a program that does not listen may repeat it at every step.
      if (deeds.refused.insert({event.trial, event.attempt}).second)
        deeds.notes.push_back(error.what());
      return std::string(error.what());
    }
  }

  /// Who waits for the answer has what it says to have saved.
  void check_checkpoint(StudyCore& core, const ExecutorEvent& event) const {
    const std::string& checkpoint = event.report.checkpoint;
    if (checkpoint.empty() || !event.waits || executor_.has_checkpoint(checkpoint)) return;
    const Error error = no_checkpoint(event.trial, checkpoint);
    core.refuse_report(event.trial, error.what());
    throw error;
  }

  void interrupt(StudyCore& core, const std::string& why, double now_s, Deeds& deeds) const {
    const bool again = outcome_.interrupted || !deeds.interrupts.empty();
    if (!core.is_stopped()) core.stop(why, now_s);
    deeds.interrupts.emplace_back(why, again);
    if (!kept_)  // else it was obeyed, and said, when it came
      deeds.notes.push_back(again ? "killing what runs"
                                  : concat(why, ": stopping; once more kills"));
  }

  double budget_end_s() const { return started_s_ + spec_.time_budget_s - used_s_; }

  void stop_if_over_budget() {
    if (spec_.time_budget_s <= 0 || !outcome_.stopped.empty() || study_.now_s() < budget_end_s())
      return;
    outcome_.stopped = concat("time budget of ",
                              human_duration(spec_.time_budget_s),
                              " used up",
                              used_s_ > 0 ? concat(", ", human_duration(used_s_), " before") : "");
    stored([&](StudyCore& core, double now_s) {
      if (!core.is_stopped()) core.stop(outcome_.stopped, now_s);
    });
    note(outcome_.stopped);
    stop_running(outcome_.stopped, /*kill=*/false);
  }

  void stop_running(const std::string& why, bool kill) {
    for (const auto& [trial, share] : shares_) {
      told_to_end_.insert(trial);
      executor_.stop(trial, why, kill);
    }
  }

  /// study_.apply; `call` is made again if it could not be stored.
  template <class Call>
  void stored(Call call) {
    patiently([&] { study_.apply(call); });
    has_news_ = true;
  }

  template <class Act>
  void patiently(Act act) {
    patience_.run(act);
  }

  const CheckpointIsThere is_there_ = [this](const std::string& checkpoint) {
    return executor_.has_checkpoint(checkpoint);
  };
  std::set<int64_t> running() const {
    std::set<int64_t> trials;
    for (const auto& [trial, share] : shares_) {
      if (trial != starting_) trials.insert(trial);
    }
    return trials;
  }

  void tick(bool now = false) {
    if (!view_.tick || (!now && study_.now_s() - last_tick_s_ < view_.tick_s)) return;
    last_tick_s_ = study_.now_s();
    StatusFacts facts{.now_s = last_tick_s_, .started_s = started_s_, .before_s = used_s_};
    facts.resources = pool_.used();
    facts.pending_why = pool_.why_not();
    facts.storage = spec_.storage.string();
    for (const auto& [trial, share] : shares_)
      facts.locations.emplace_back(trial, executor_.location(trial));
    study_.look([&](const StudyCore& core) {
      facts.planned = core.planned_trials();
      view_.tick(core, facts);
    });
  }

  void note(const std::string& line) const {
    if (view_.note) view_.note(line);
  }

  Study& study_;
  const StudySpec& spec_;
  Executor& executor_;
  ResourcePool& pool_;
  const TunerView& view_;
  const double started_s_;
  double last_tick_s_ = 0;
  const double used_s_ = study_.look([](const StudyCore& core) { return core.used_s(); });
  double looked_s_ = started_s_;
  std::map<int64_t, ResourcePool::Share> shares_;  // of running trials
  std::set<int64_t> told_to_end_;                  // of them, because the study ends
  int64_t starting_ = -1;                          // of them, not started yet
  bool held_ = false;                              // it was said that all is held
  bool waits_for_asked_ = false;
  bool kept_ = false;  // the events that are taken came while storage was waited for
  Patience patience_{
      executor_,
      spec_.storage_patience_s,
      {.note = [this](const std::string& line) { note(line); },
       .stop = [this](const std::string& why, bool kill) { stop_running(why, kill); },
       .running = [this] { return running(); }}};
  std::set<std::pair<int64_t, int32_t>> refused_;  // attempts that had a report refused
  TunerOutcome outcome_;
  bool any_report_ = false;
  bool has_news_ = true;  // since the study was last asked for a trial
  Thinker thinker_;
};

}  // namespace

TunerOutcome run_study(Study& study,
                       const StudySpec& spec,
                       Executor& executor,
                       ResourcePool& pool,
                       const TunerView& view) {
  return Tuner(study, spec, executor, pool, view).run();
}

}  // namespace muster::tune
