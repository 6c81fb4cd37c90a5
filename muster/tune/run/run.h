// Ray Tune's tune.run for C++ functions: trials run on threads of this process.
//
//     void train(tune::TrialHandle& trial) {
//       const double lr = trial.config["lr"].as_double();
//       for (int64_t epoch = 1; epoch <= 10; ++epoch) {
//         const double loss = …;
//         if (trial.report({{"loss", loss}}) != tune::Action::kContinue) return;
//       }
//     }
//
//     const auto result = tune::run(&train, {
//         .config = {{"lr", tune::loguniform(1e-4, 1e-1)},
//                    {"batch_size", tune::choice({2, 4, 8})}},
//         .metric = "loss",
//         .mode = "min",
//         .num_samples = 10,
//         .scheduler = tune::asha({.max_t = 10, .grace_period = 1, .reduction_factor = 2})});
//     result.best_config()["lr"].as_double();
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/tune/core/study_spec.h"
#include "muster/tune/run/study.h"
#include "muster/tune/views/history.h"

namespace muster::tune {

/// A trial's parameters by name. Views the study's space: valid while the trial runs, or as long as
/// the RunResult that it came from.
class Config {
 public:
  Config(const Space& space, const Values& values) : space_(&space), values_(&values) {}

  /// Throws a usage error for an unknown name, with the nearest one. A conditional parameter that
  /// does not apply is there and is_none().
  const Value& operator[](std::string_view name) const;

 private:
  const Space* space_;
  const Values* values_;
};

class FunctionTrials;

/// A running trial, as its function sees it. One thread.
class TrialHandle {
 public:
  const Config config;
  const int64_t number;
  const int32_t attempt;                      ///< 1 is the first
  const std::string resume_from;              ///< a checkpoint to go on from, or empty
  const std::vector<std::string> device_ids;  ///< of its share of GPUs

  /// Stores the report and returns what to do: on kPause and kStop the function should return
  /// (after kPause it is called again, perhaps, with resume_from). Throws a usage error for a
  /// report that makes no sense (see StudyCore::report), an environment error if it could not be
  /// stored for RunConfig::storage_patience_s: the run ends with it, and the trial can go on later.
  Action report(Metrics metrics, const ReportOptions& options = {});

  /// Why the newest report was answered as it was; may be empty.
  const std::string& reason() const { return reason_; }

 private:
  friend class FunctionTrials;
  TrialHandle(FunctionTrials& trials,
              const Space& space,
              const Trial& trial,
              std::vector<std::string> devices);

  FunctionTrials& trials_;
  const Values values_;
  int64_t sequence_ = 0;
  bool told_to_end_ = false;  // because the study ends
  std::string too_long_;      // over a timeout, and which
  std::chrono::steady_clock::time_point started_, reported_;
  std::exception_ptr lost_;  // why a report could not be stored
  std::string reason_;
};

using TrainFunction = std::function<void(TrialHandle& trial)>;

/// A searcher or a scheduler: one of the table by its text, "asha:max_t=10", or an object of the
/// caller's own, {"mine", [](const SchedulerContext& context) { return std::make_unique<Mine>(context); }}.
/// `own` is called anew whenever a study is begun or made from its log, perhaps on another thread; a
/// stored study knows the object by its name, so that one that decides otherwise gets another.
template <class Strategy, class Context>
struct StrategyChoice {
  using Make = std::function<std::unique_ptr<Strategy>(const Context& context)>;

  StrategyChoice(const char* text) : text(text) {}
  StrategyChoice(std::string text) : text(std::move(text)) {}
  StrategyChoice(std::string name, Make own) : text(std::move(name)), own(std::move(own)) {}

  std::string text;
  Make own;  ///< may be empty
};

struct RunResult;

/// Called after what they tell of is stored, one at a time, by whichever thread; they must not call
/// the study. What they throw ends nothing: no further one is called, and run() throws it at its end.
struct RunCallbacks {
  std::function<void(const Trial& trial, const Reported& report)> on_report;
  std::function<void(const Trial& trial)> on_trial_end;         ///< one that is over
  std::function<void(const RunResult& result)> on_study_end{};  ///< by run(), before it returns
};

/// Field order is API. Names and meanings are Ray Tune's where it has them.
struct RunConfig {
  Space config;
  std::string metric;
  std::string mode;         ///< "min" or "max"; has to be said
  int64_t num_samples = 1;  ///< times the grid; -1: without end
  /// "asha:max_t=10", asha({.max_t = 10}), or an object of one's own
  StrategyChoice<Scheduler, SchedulerContext> scheduler = "fifo";
  Resources resources_per_trial;
  std::map<std::string, double> machine_custom;  ///< what there is of resources_per_trial.custom
  StrategyChoice<Searcher, SearcherContext> search_alg = "random";  ///< "random_then_grid:top=3"
  int64_t max_concurrent_trials = 0;  ///< threads; 0: what the resources allow
  std::vector<std::string> stop;      ///< "loss <= 0.1"
  Plateau plateau;
  double time_budget_s = 0;
  std::vector<std::map<std::string, Value>> points_to_evaluate;
  int64_t max_failures = 0;    ///< further attempts after an exception; -1: without end
  bool fail_fast = false;      ///< the first trial that has failed for good ends the study
  int64_t give_up_after = 10;  ///< so many failed trials and not one report end it; 0: never
  uint64_t seed = 0;
  std::string name = "study";
  std::filesystem::path storage;   ///< SQLite file; empty: in memory. An existing study goes on.
  bool durable = false;            ///< reports survive a power cut
  double storage_patience_s = 60;  ///< how long a full disk or a locked file is waited for
  std::string scope = "last";      ///< or "best": which report counts as a trial's result
  EventObserver on_events;         ///< see status_view.h for what to print
  std::stop_token stop_token;      ///< ends the run early; what is stored can be resumed
  bool stop_on_signals =
      false;  ///< so do Ctrl-C and SIGTERM; a second one kills. Of one run at a time
  RunCallbacks callbacks;
  /// Over max_failures for a class of failures: {Failure::kOutOfMemory, {.retries = 0}}.
  std::map<Failure, FailurePolicy> failures;
  /// A function cannot be ended from outside: one that is over either is told to stop at its next
  /// report, and has failed with class timeout.
  double trial_timeout_s = 0;   ///< of one attempt; 0: none
  double report_timeout_s = 0;  ///< between two reports of it; 0: none
  bool nan_is_failure = false;  ///< a metric that is not finite; else NaN is the worst score
  /// The newest so many of each trial stay, and what a trial needs to go on from; others are removed,
  /// files or folders, as their trials named them; 0: all stay.
  int64_t keep_checkpoints = 0;
  bool histories = false;  ///< RunResult::histories; true holds all reports in memory
  /// {"max accuracy", "min step_s"}: several objectives in place of metric and mode, see
  /// Note [Several objectives].
  std::vector<std::string> objectives = {};
  std::vector<std::string> constraints =
      {};  ///< "peak_mib <= 900": a trial beyond it is never best
};

/// What a run leaves. Copies; valid without the study.
struct RunResult {
  Space space;
  std::vector<Trial> trials;  ///< by number
  /// Number of the best trial; none if no trial has a metric that is no NaN and satisfies the
  /// constraints.
  std::optional<int64_t> best;
  bool interrupted = false;  ///< by stop_token or time budget
  std::string stopped;       ///< why no more trials were started; empty: none was due

  /// All reports of each trial, by number; of a resumed study also those before. Only if the
  /// RunConfig wants them.
  std::vector<TrialHistory> histories;
  StudyFacts
      facts;  ///< of the study, for what views/history.h and views/export.h do with histories

  /// Of several objectives, instead of a best trial: numbers of those on the front; see
  /// StudyCore::front.
  std::vector<int64_t> front;

  /// Throw a usage error if there is no best trial.
  const Trial& best_trial() const;
  Config best_config() const;

  /// The best trial's newest checkpoint; empty if it has none.
  const std::string& best_checkpoint() const;

  /// A line per trial as CSV: see to_csv in views/export.h. Throws a usage error without histories.
  std::string table() const;
};

/// Runs the study to its end, or on from where `storage` has it. An exception of `train` fails the
/// trial (std::bad_alloc and messages of an out-of-memory as Failure::kOutOfMemory); the study goes
/// on, unless fail_fast or give_up_after say otherwise. Other processes may ask for trials of a
/// stored study meanwhile (Note [Shared studies]); theirs are not waited for. Throws a usage error for a config that makes no sense, before anything runs.
RunResult run(const TrainFunction& train, const RunConfig& config);

}  // namespace muster::tune
