#include "muster/tune/run/run.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tune/core/stop_rules.h"
#include "muster/tune/machine/resources.h"

namespace muster::tune {

const Value& Config::operator[](std::string_view name) const {
  if (const auto index = space_->index_of(name)) return (*values_)[*index];
  std::vector<std::string> names;
  for (const Parameter& parameter : space_->parameters()) names.push_back(parameter.name);
  throw usage_error(
      {.refused = concat("unknown parameter \"", name, '"'), .hint = suggestion(name, names)});
}

// ---- A trial ----

TrialHandle::TrialHandle(FunctionTrials& trials,
                         const Space& space,
                         const Trial& trial,
                         std::vector<std::string> devices)
    : config(space, values_),
      number(trial.number),
      attempt(trial.attempt),
      resume_from(trial.checkpoint),
      device_ids(std::move(devices)),
      trials_(trials),
      values_(trial.values) {}

// ---- The threads ----

namespace {

/// A study that improves the wrong way is found out late, if ever.
Mode mode_of(const RunConfig& config) {
  if (!config.mode.empty()) return parse_mode(config.mode);
  throw usage_error({.refused = "study without a mode",
                     .rule = "mode says which way the metric is better",
                     .hint = ".mode = \"min\" for a loss, \"max\" for an accuracy"});
}

StudySpec spec_of(const RunConfig& config) {
  StudySpec spec{.name = config.name,
                 .storage = config.storage,
                 .metric = config.metric,
                 .mode = mode_of(config)};
  spec.space = config.config;
  spec.num_samples = config.num_samples;
  spec.max_concurrent = config.max_concurrent_trials;
  spec.time_budget_s = config.time_budget_s;
  for (const std::string& text : config.stop)
    spec.stop.push_back(parse_stop_criterion(text, "stop"));
  spec.plateau = config.plateau;
  spec.points_to_evaluate = config.points_to_evaluate;
  spec.searcher = config.search_alg;
  spec.scheduler = config.scheduler;
  spec.seed = config.seed;
  spec.resources_per_trial = config.resources_per_trial;
  spec.machine_custom = config.machine_custom;
  spec.failures.fill({.retries = config.max_failures});
  spec.fail_fast = config.fail_fast;
  spec.give_up_after = config.give_up_after;
  spec.durable = config.durable;
  spec.storage_patience_s = config.storage_patience_s;
  spec.scope = parse_scope(config.scope);
  check_study(spec);
  return spec;
}

/// The class and the words of the exception that is being handled.
std::pair<Failure, std::string> failure_of_exception() {
  try {
    throw;
  } catch (const std::bad_alloc& error) {
    return {Failure::kOutOfMemory, error.what()};
  } catch (const std::exception& error) {
    const std::string text = error.what();
    const bool memory = text.find("out of memory") != std::string::npos ||
                        text.find("can't allocate memory") != std::string::npos;
    return {memory ? Failure::kOutOfMemory : Failure::kCrash, text};
  } catch (...) {
    return {Failure::kCrash, "an exception that is no std::exception"};
  }
}

}  // namespace

/// Runs trials of a study on threads until none is left.
class FunctionTrials {
  using Since = std::chrono::steady_clock::time_point;

  /// study_.apply; the call is made again while a full disk or a locked file keeps its events from
  /// being stored.
  template <class Call>
  auto stored(Call call) {
    const Since since = std::chrono::steady_clock::now();
    while (true) {
      try {
        return study_.apply(call);
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kEnvironment || !wait_for_storage(since)) throw;
      }
    }
  }

  /// False: no longer, or the study is to end.
  bool wait_for_storage(Since since) {
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - since;
    if (waited.count() >= spec_.storage_patience_s) return false;
    std::unique_lock lock(mutex_);
    return !changed_.wait_for(lock, std::chrono::duration<double>(kStorageRetryS), [&] {
      return error_ || config_.stop_token.stop_requested();
    });
  }

 public:
  FunctionTrials(const TrainFunction& train, const RunConfig& config)
      : train_(train),
        config_(config),
        spec_(spec_of(config)),
        pool_(machine_of(spec_), spec_.resources_per_trial),
        study_(spec_, &wall_clock_s, config.on_events, {.lock_patience_s = kLockPatienceS}),
        started_s_(study_.now_s()),
        budget_end_s_(started_s_ + spec_.time_budget_s -
                      study_.look([](const StudyCore& core) { return core.used_s(); })) {}

  RunResult run() {
    {
      std::vector<std::jthread> threads;
      const std::stop_callback wake(config_.stop_token, [this] { wake_all(); });
      const int64_t count = slots();  // before the first of them takes its share
      for (int64_t i = 0; i < count; ++i) threads.emplace_back([this] { work(); });
    }
    if (error_) std::rethrow_exception(error_);
    study_.check_observer();
    RunResult result{.space = spec_.space};
    study_.look([&](const StudyCore& core) {
      result.interrupted = core.is_stopped() && !core.has_given_up();
      result.stopped = core.stop_reason();
      if (const Trial* best = core.best()) result.best = best->number;
    });
    result.trials = study_.take_trials();
    return result;
  }

  /// The answer to a report, and whether the study ends. What keeps it from being stored is thrown
  /// and also put into `lost`.
  std::pair<Decision, bool> report(int64_t trial, const Report& report, std::exception_ptr& lost) {
    std::exception_ptr refused;
    std::pair<Decision, bool> answer;
    try {
      stored([&](StudyCore& core, double now_s) {
        refused = nullptr;
        try {
          answer.first = core.report(trial, report, now_s);
        } catch (const Error&) {
          refused = std::current_exception();
        }
        stop_if_due(core, now_s);
        answer.second = core.is_stopped();
      });
    } catch (...) {
      lost = std::current_exception();
      throw;
    }
    if (refused) std::rethrow_exception(refused);
    return answer;
  }

 private:
  struct Job {
    Trial trial;
    ResourcePool::Share share;
  };

  /// As many trials as fit at once, no more than are planned.
  int64_t slots() {
    std::vector<ResourcePool::Share> shares;
    const int64_t planned = stored([](StudyCore& core, double) { return core.planned_trials(); });
    int64_t limit = spec_.max_concurrent > 0 ? spec_.max_concurrent : kMostThreads;
    if (planned >= 0) limit = std::min(limit, std::max<int64_t>(planned, 1));
    while (static_cast<int64_t>(shares.size()) < limit) {
      auto share = pool_.take();
      if (!share) break;
      shares.push_back(std::move(*share));
    }
    for (const auto& share : shares) pool_.give_back(share);
    return static_cast<int64_t>(shares.size());
  }

  void work() {
    try {
      while (auto job = next_job()) run_job(*job);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      changed_.notify_all();
    }
  }

  /// Blocks until a trial is to be run; nothing when the study is over.
  std::optional<Job> next_job() {
    std::unique_lock lock(mutex_);
    while (!error_) {
      const uint64_t seen = changes_;
      lock.unlock();
      Job job;
      const StudyCore::Next next = ask(job);
      lock.lock();
      if (next.kind == StudyCore::Next::kStart) {
        job.share = pool_.take().value();  // there are no more threads than shares
        return job;
      }
      if (next.kind != StudyCore::Next::kWait) return std::nullopt;
      wait_for_change(lock, seen, next.wait_until_s);
    }
    return std::nullopt;
  }

  StudyCore::Next ask(Job& job) {
    return stored([&](StudyCore& core, double now_s) {
      stop_if_due(core, now_s);
      const StudyCore::Next next = core.next(now_s);
      if (next.kind == StudyCore::Next::kStart)
        job.trial = core.trials()[static_cast<size_t>(next.trial)];
      return next;
    });
  }

  void stop_if_due(StudyCore& core, double now_s) {
    if (core.is_stopped()) return;
    if (config_.stop_token.stop_requested()) core.stop("asked to stop", now_s);
    if (spec_.time_budget_s > 0 && now_s >= budget_end_s_)
      core.stop(concat("time budget of ", human_duration(spec_.time_budget_s)), now_s);
  }

  void wait_for_change(std::unique_lock<std::mutex>& lock, uint64_t seen, double until_s) {
    double seconds = until_s > 0 ? until_s - study_.now_s() : kLongestWaitS;
    if (spec_.time_budget_s > 0) seconds = std::min(seconds, budget_end_s_ - study_.now_s());
    if (!spec_.storage.empty()) seconds = std::min(seconds, kLookS);  // others may have been told
    changed_.wait_for(lock, std::chrono::duration<double>(std::max(seconds, 0.0)), [&] {
      return changes_ != seen || error_;
    });
  }

  void run_job(Job& job) {
    std::vector<std::string> devices;
    for (const size_t gpu : job.share.gpus) devices.push_back(pool_.machine().gpus[gpu]);
    TrialHandle handle(*this, spec_.space, job.trial, std::move(devices));
    std::pair<Failure, std::string> failure{Failure::kNone, ""};
    try {
      train_(handle);
    } catch (...) {
      failure = failure_of_exception();
    }
    if (handle.lost_) std::rethrow_exception(handle.lost_);  // no fault of the trial's
    // One that returned because the study ends is to go on; one that returned by itself is over.
    if (handle.told_to_end_ && failure.first == Failure::kNone)
      failure = {Failure::kInterrupted, "the study ends"};
    stored([&](StudyCore& core, double now_s) {
      core.ended(job.trial.number, failure.first, failure.second, now_s);
      stop_if_due(core, now_s);
    });
    const std::lock_guard lock(mutex_);
    pool_.give_back(job.share);
    ++changes_;
    changed_.notify_all();
  }

  void wake_all() {
    const std::lock_guard lock(mutex_);
    ++changes_;
    changed_.notify_all();
  }

  static constexpr int64_t kMostThreads = 1024;
  static constexpr double kLongestWaitS = 3600;
  static constexpr double kLockPatienceS = 1;  // of one try
  static constexpr double kStorageRetryS = 1;
  static constexpr double kLookS = 1;

  const TrainFunction& train_;
  const RunConfig& config_;
  StudySpec spec_;
  ResourcePool pool_;
  Study study_;
  double started_s_, budget_end_s_;
  std::mutex mutex_;  // never held while the study is called
  std::condition_variable changed_;
  uint64_t changes_ = 0;  // ends of trials, and wishes to stop
  std::exception_ptr error_;
};

Action TrialHandle::report(Metrics metrics, const ReportOptions& options) {
  const Report report{.sequence = ++sequence_,
                      .step = options.step,
                      .metrics = std::move(metrics),
                      .checkpoint = options.checkpoint};
  auto [decision, study_ends] = trials_.report(number, report, lost_);
  reason_ = std::move(decision.reason);
  if (!study_ends || decision.action != Action::kContinue) return decision.action;
  told_to_end_ = true;
  return Action::kStop;
}

RunResult run(const TrainFunction& train, const RunConfig& config) {
  return FunctionTrials(train, config).run();
}

const Trial& RunResult::best_trial() const {
  if (!best) {
    const auto failed = std::find_if(trials.begin(), trials.end(), [](const Trial& trial) {
      return trial.failure != Failure::kNone && !trial.reason.empty();
    });
    throw usage_error(
        {.refused = "the best trial",
         .rule = "a trial ended in order with a finite metric",
         .value = concat(trials.size(), " trials"),
         .hint = failed == trials.end()
                     ? ""
                     : concat("trial ", failed->number, " failed: ", failed->reason)});
  }
  return trials[static_cast<size_t>(*best)];
}

Config RunResult::best_config() const { return {space, best_trial().values}; }

}  // namespace muster::tune
