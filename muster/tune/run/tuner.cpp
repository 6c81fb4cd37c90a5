#include "muster/tune/run/tuner.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <set>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tune/core/stop_rules.h"

namespace muster::tune {
namespace {

constexpr double kStorageRetryS = 1;

/// An answer that is held back until what it rests on is stored.
struct Answer {
  uint64_t token = 0;
  std::variant<Decision, std::string> what;  ///< a text: why the report was refused
};

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
    while (true) {
      const StudyCore::Next next = fill_slots();
      if (next.kind == StudyCore::Next::kFinished && shares_.empty()) break;
      tick();
      take(executor_.wait(wait_s(next)));
      stop_if_over_budget();
    }
    tick(/*now=*/true);
    return outcome_;
  }

 private:
  /// Starts trials while they fit. The last answer of the core: why no more were started.
  StudyCore::Next fill_slots() {
    StudyCore::Next next;
    while (spec_.max_concurrent == 0 ||
           static_cast<int64_t>(shares_.size()) < spec_.max_concurrent) {
      auto share = pool_.take();
      if (!share) return next;
      AttemptPlan plan;
      stored([&](StudyCore& core, double now_s) {
        next = core.next(now_s);
        if (next.kind == StudyCore::Next::kStart) plan = plan_of(core, next.trial, *share);
      });
      if (next.kind != StudyCore::Next::kStart) {
        pool_.give_back(*share);
        return next;
      }
      shares_.emplace(plan.trial, *share);
      const auto start = [&] { executor_.start(plan); };  // makes a folder and files
      patiently(start, start);
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
    if (spec_.time_budget_s > 0 && outcome_.stopped.empty())
      until(started_s_ + spec_.time_budget_s);
    if (view_.tick) until(last_tick_s_ + view_.tick_s);
    return wait;
  }

  /// What came together is stored together; only then is anybody answered.
  void take(const std::vector<ExecutorEvent>& events) {
    if (events.empty()) return;
    std::vector<Answer> answers;
    stored([&](StudyCore& core, double now_s) {
      for (const ExecutorEvent& event : events) take_one(core, event, now_s, answers);
    });
    for (const Answer& answer : answers) {
      if (const auto* decision = std::get_if<Decision>(&answer.what)) {
        executor_.answer(answer.token, *decision);
      } else {
        executor_.refuse(answer.token, std::get<std::string>(answer.what));
      }
    }
    for (const auto& [why, kill] : std::exchange(stops_, {})) stop_running(why, kill);
    for (const int64_t trial : std::exchange(stopped_trials_, {})) {
      if (shares_.contains(trial)) executor_.stop(trial, "`muster study stop`", /*kill=*/false);
    }
  }

  void take_one(StudyCore& core,
                const ExecutorEvent& event,
                double now_s,
                std::vector<Answer>& answers) {
    switch (event.kind) {
      case ExecutorEvent::kReport:
        answers.push_back({event.token, decide(core, event, now_s)});
        break;
      case ExecutorEvent::kEnded:
        core.ended(event.trial, event.failure, event.message, now_s);
        if (const auto share = shares_.find(event.trial); share != shares_.end()) {
          pool_.give_back(share->second);
          shares_.erase(share);
        }
        break;
      case ExecutorEvent::kStopStudy:
        if (event.trial >= 0) return stop_trial(core, event, now_s);
        [[fallthrough]];
      case ExecutorEvent::kInterrupt:
        interrupt(core, event.message, now_s);
        break;
      case ExecutorEvent::kNote:
        note(event.message);
        break;
    }
  }

  std::variant<Decision, std::string> decide(StudyCore& core,
                                             const ExecutorEvent& event,
                                             double now_s) {
    try {
      Report report = event.report;
      report.sequence = 0;  // clients number their own; the executor answers what they repeat
      Decision decision = core.report(event.trial, report, now_s);
      if (!std::exchange(rules_checked_, true)) check_rules(event);
      return decision;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUsage) throw;
      // Once per attempt: a program that does not listen may repeat it at every step.
      if (refused_.insert({event.trial, event.attempt}).second) note(error.what());
      return std::string(error.what());
    }
  }

  /// A stop rule on a metric that nobody reports would never hold: said at the first report.
  void check_rules(const ExecutorEvent& event) const {
    for (const std::string& metric : StopRules(spec_).metrics()) {
      if (find_metric(event.report.metrics, metric) != nullptr) continue;
      std::vector<std::string> names;
      for (const auto& [name, value] : event.report.metrics) names.push_back(name);
      note(concat("a stop rule names \"",
                  metric,
                  "\", which trial ",
                  event.trial,
                  " does not report; ",
                  suggestion(metric, names)));
    }
  }

  void interrupt(StudyCore& core, const std::string& why, double now_s) {
    const bool again = outcome_.interrupted;
    outcome_.interrupted = true;
    outcome_.stopped = why;
    if (!core.is_stopped()) core.stop(why, now_s);
    stops_.emplace_back(why, again);
    note(again ? "killing what runs" : concat(why, ": stopping; once more kills"));
  }

  void stop_trial(StudyCore& core, const ExecutorEvent& event, double now_s) {
    try {
      core.stop_trial(event.trial, concat("stopped by ", event.message), now_s);
      stopped_trials_.push_back(event.trial);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUsage) throw;
      note(error.what());
    }
  }

  void stop_if_over_budget() {
    if (spec_.time_budget_s <= 0 || !outcome_.stopped.empty() ||
        study_.now_s() - started_s_ < spec_.time_budget_s)
      return;
    outcome_.stopped = concat("time budget of ", human_duration(spec_.time_budget_s), " used up");
    stored([&](StudyCore& core, double now_s) { core.stop(outcome_.stopped, now_s); });
    note(outcome_.stopped);
    stop_running(outcome_.stopped, /*kill=*/false);
  }

  void stop_running(const std::string& why, bool kill) {
    for (const auto& [trial, share] : shares_) executor_.stop(trial, why, kill);
  }

  /// study_.apply; `call` has been made once, whatever happens.
  template <class Call>
  void stored(Call call) {
    patiently([&] { study_.apply(call); }, [&] { study_.flush(); });
  }

  /// Patient with a disk that is full or a file that is locked: trials wait for their answers
  /// meanwhile.
  template <class First, class Again>
  void patiently(First first, Again again) {
    std::string trouble;
    try {
      return first();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kEnvironment) throw;
      trouble = error.what();
      note(concat(trouble,
                  "\nhint: trials wait; trying again for ",
                  human_duration(spec_.storage_patience_s)));
    }
    for (double waited = 0;; waited += kStorageRetryS) {
      std::this_thread::sleep_for(std::chrono::duration<double>(kStorageRetryS));
      try {
        return again();
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kEnvironment || waited >= spec_.storage_patience_s) throw;
        if (std::exchange(trouble, error.what()) != error.what()) note(error.what());
      }
    }
  }

  void tick(bool now = false) {
    if (!view_.tick || (!now && study_.now_s() - last_tick_s_ < view_.tick_s)) return;
    last_tick_s_ = study_.now_s();
    StatusFacts facts{.now_s = last_tick_s_, .started_s = started_s_};
    facts.resources = pool_.used();
    facts.pending_why = pool_.why_not();
    facts.storage = spec_.storage.string();
    for (const auto& [trial, share] : shares_)
      facts.locations.emplace_back(trial, executor_.location(trial));
    study_.apply([&](StudyCore& core, double) {
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
  std::map<int64_t, ResourcePool::Share> shares_;  // of running trials
  std::vector<std::pair<std::string, bool>> stops_;
  std::vector<int64_t> stopped_trials_;
  std::set<std::pair<int64_t, int32_t>> refused_;  // attempts that had a report refused
  bool rules_checked_ = false;
  TunerOutcome outcome_;
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
