// All that defines a study: what a study file says, and what tune::run is given.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/error.h"
#include "muster/tune/objective/objective.h"
#include "muster/tune/space/space.h"
#include "muster/tune/trial/trial.h"

namespace muster::tune {

class Searcher;
struct SearcherContext;
class Scheduler;
struct SchedulerContext;

/// What one trial holds while it runs. Amounts are counted in thousandths.
struct Resources {
  double cpu = 1;
  double gpu = 0;             ///< below 1: a share of one device; above: whole devices
  uint64_t memory_bytes = 0;  ///< host memory; 0: not counted
  std::map<std::string, double> custom;
  friend bool operator==(const Resources&, const Resources&) = default;
};

/// What happens when an attempt fails.
struct FailurePolicy {
  int64_t retries = 0;   ///< further attempts; -1: without end
  double backoff_s = 1;  ///< before the first retry, then times backoff_factor, at most a minute
  double backoff_factor = 2;
  bool from_checkpoint = true;  ///< else from the start
  friend bool operator==(const FailurePolicy&, const FailurePolicy&) = default;
};

/// "loss <= 0.1": the trial that reports it has all it was to get.
struct StopCriterion {
  enum class Comparison { kLess, kLessEqual, kGreater, kGreaterEqual };
  std::string metric;  ///< or "step" or "time_total_s"
  Comparison comparison = Comparison::kGreaterEqual;
  double bound = 0;
  friend bool operator==(const StopCriterion&, const StopCriterion&) = default;
};

/// Ends a trial that has stopped improving.
struct Plateau {
  int64_t patience = 0;  ///< reports without an improvement of the study's metric; 0: off
  double min_delta = 0;
  int64_t grace_period = 0;  ///< no stop before this t
  friend bool operator==(const Plateau&, const Plateau&) = default;
};

/// See docs/tune.md for the keys of a study file; names are the same.
struct StudySpec {
  std::string name;
  std::filesystem::path storage;  ///< of the SQLite file; empty: in memory
  std::string metric;
  Mode mode = Mode::kMax;
  enum class Scope { kLast, kBest } scope = Scope::kLast;  ///< which report counts as the result
  int64_t num_samples = 1;         ///< times the grid's size = trials; -1: without end
  int64_t max_concurrent = 0;      ///< trials at once; 0: what the resources allow
  double time_budget_s = 0;        ///< of the whole study, over all its tuners; 0: none
  double storage_patience_s = 60;  ///< how long a full disk or a locked file is waited for
  std::vector<StopCriterion> stop;
  Plateau plateau;
  Space space;
  std::vector<std::map<std::string, Value>> points_to_evaluate;  ///< first, counted in num_samples
  bool constant_grid_search = false;  ///< random dimensions drawn once per grid, not per variant
  std::string searcher = "random";    ///< "name:key=value,…"
  std::string scheduler = "fifo";
  /// Unless empty, they make searcher and scheduler; the texts above are only their names then. Each
  /// is called for every core of the study, also on another thread.
  std::function<std::unique_ptr<Searcher>(const SearcherContext& context)> own_searcher;
  std::function<std::unique_ptr<Scheduler>(const SchedulerContext& context)> own_scheduler;
  std::string executor = "local";  ///< of programs; C++ functions run on threads
  uint64_t seed = 0;
  Resources resources_per_trial;
  std::map<std::string, double> machine_custom;     ///< what the machine has of Resources::custom
  std::array<FailurePolicy, kFailures> failures{};  ///< by Failure
  bool fail_fast = false;          ///< the first trial that has failed for good ends the study
  int64_t give_up_after = 10;      ///< so many failed trials and not one report end it; 0: never
  double ask_lease_s = 24 * 3600;  ///< a trial that was asked for and is told nothing is lost then
  double trial_timeout_s = 0;      ///< of one attempt; 0: none
  double report_timeout_s = 0;     ///< without a report; 0: none
  bool nan_is_failure = false;     ///< a metric that is not finite; else NaN is the worst score
  /// The newest so many of each trial stay, and what a trial needs to go on from; 0: all. See Note
  /// [Kept checkpoints].
  int64_t keep_checkpoints = 0;

  // A trial that is a program.
  std::vector<std::string> command;      ///< "{lr}" is replaced; "{{" is a brace
  std::filesystem::path working_folder;  ///< of the command: the study file's folder
  std::map<std::string, std::string> environment;
  /// Checkpoints and output of trials: STORAGE's stem + "-trials".
  std::filesystem::path trial_folder;
  double stop_grace_s = 10;  ///< from `stop` or `pause` to SIGTERM
  double kill_grace_s = 5;   ///< from SIGTERM to SIGKILL

  // What is written besides the storage.
  bool ray_files = false;
  bool tensorboard = false;
  bool durable = false;  ///< reports survive a power cut (fsync), not just kills

  /// Several objectives, the first one being metric and mode, and constraints: see
  /// Note [Several objectives].
  Goals goals;

  /// Where a study file has which key, {"scheduler", "study.toml:4:1"}, which parameter (place_key)
  /// and itself (kWholeFile). For errors alone.
  std::map<std::string, std::string> places;
};

/// Of StudySpec::places: for what the file does not have.
inline constexpr std::string_view kWholeFile = "*";
/// Of a parameter, which may be called as a key is.
std::string place_key(std::string_view parameter);

/// `said`, with the place of the key in front, if the study comes of a file that has it.
Error at_place(const StudySpec& spec, std::string_view key, const Error& said);

/// What `act` refuses is refused as the key's.
template <class Act>
decltype(auto) located(const StudySpec& spec, std::string_view key, Act&& act) {
  try {
    return act();
  } catch (const Error& error) {
    throw at_place(spec, key, error);
  }
}

/// "last" or "best". Throws a usage error for anything else.
StudySpec::Scope parse_scope(std::string_view text);
std::string_view name_of(StudySpec::Scope scope);

/// Makes these the study's: one is its metric and its mode.
void set_objectives(StudySpec& spec, std::vector<Objective> objectives);

/// Throws a usage error for numbers that make no sense (num_samples 0, a negative budget), a
/// missing name or metric, or a space without parameters.
void check_study(const StudySpec& spec);

}  // namespace muster::tune
