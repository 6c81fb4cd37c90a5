#include "muster/tune/run/run.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include <signal.h>

#include "muster/base/duration.h"
#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tune/machine/resources.h"
#include "muster/tune/run/checkpoint_files.h"
#include "muster/tune/run/run_parts.h"
#include "muster/tune/run/stop_on_signals.h"

namespace muster::tune {

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
      values_(trial.values),
      started_(std::chrono::steady_clock::now()),
      reported_(started_) {}

// ---- The threads ----

namespace {

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
      return error_ || config_.stop_token.stop_requested() || signal_ != 0;
    });
  }

 public:
  FunctionTrials(const TrainFunction& train, const RunConfig& config)
      : train_(train),
        config_(config),
        spec_(run_spec(config)),
        pool_(machine_of(spec_), spec_.resources_per_trial),
        histories_(facts_of(spec_)),
        study_(spec_, &wall_clock_s, observer(), {.lock_patience_s = kLockPatienceS}),
        started_s_(study_.now_s()),
        budget_end_s_(started_s_ + spec_.time_budget_s -
                      study_.look([](const StudyCore& core) { return core.used_s(); })) {}

  RunResult run() {
    {
      const std::stop_callback wake(config_.stop_token, [this] { wake_all(); });
      std::optional<StopOnSignals> signals;
      if (config_.stop_on_signals) signals.emplace([this](int signal) { take_signal(signal); });
      tidy_up();
      const int64_t count = slots();      // before the first of them takes its share
      std::vector<std::jthread> threads;  // end before what wakes them does
      for (int64_t i = 0; i < count; ++i) threads.emplace_back([this] { work(); });
    }
    if (error_) std::rethrow_exception(error_);
    study_.check_observer();
    RunResult result{.space = spec_.space, .facts = facts_of(spec_)};
    study_.look([&](const StudyCore& core) {
      result.interrupted = core.is_stopped() && !core.has_given_up();
      result.stopped = core.stop_reason();
      if (const Trial* best = core.best()) result.best = best->number;
      result.front.assign(core.front().begin(), core.front().end());
    });
    result.trials = study_.take_trials();
    if (config_.histories) result.histories = take_histories();
    if (config_.callbacks.on_study_end) config_.callbacks.on_study_end(result);
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
    tidy_up();
    if (refused) std::rethrow_exception(refused);
    return answer;
  }

  /// Which timeout the attempt is over, in words; empty: none.
  std::string too_long(const TrialHandle& handle) const {
    const auto over = [now = Since::clock::now()](Since since, double limit_s) {
      return limit_s > 0 && std::chrono::duration<double>(now - since).count() > limit_s;
    };
    if (over(handle.started_, spec_.trial_timeout_s))
      return concat("ran longer than ", human_duration(spec_.trial_timeout_s));
    if (over(handle.reported_, spec_.report_timeout_s))
      return concat("no report for ", human_duration(spec_.report_timeout_s));
    return "";
  }

 private:
  /// Histories of a study with a file are read from it at the end.
  EventObserver observer() {
    auto inner = run_observer(config_);
    if (!config_.histories || !spec_.storage.empty()) return inner;
    return [this, inner = std::move(inner)](const StudyCore& core, std::span<const Event> events) {
      for (const Event& event : events) histories_.add(event);
      if (inner) inner(core, events);
    };
  }

  std::vector<TrialHistory> take_histories() {
    if (!spec_.storage.empty())
      read_events(spec_.storage, spec_.name, [&](std::span<const Event> events) {
        for (const Event& event : events) histories_.add(event);
      });
    return std::move(histories_).take();
  }

  void tidy_up() {
    if (spec_.keep_checkpoints > 0)
      remove_checkpoints(study_.take_needless_checkpoints(), spec_.trial_folder);
  }

  void take_signal(int signal) {
    {
      const std::lock_guard lock(mutex_);
      signal_ = signal;
    }
    wake_all();
  }

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
      auto share = pool_.try_acquire();
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
        job.share = pool_.try_acquire().value();  // there are no more threads than shares
        return job;
      }
      if (next.kind == StudyCore::Next::kThink && next.think) {
        think(lock, next.think);
        continue;
      }
      if (next.kind != StudyCore::Next::kWait && next.kind != StudyCore::Next::kThink)
        return std::nullopt;
      wait_for_change(lock, seen, next.wait_until_s);
    }
    return std::nullopt;
  }

  StudyCore::Next ask(Job& job) {
    return stored([&](StudyCore& core, double now_s) {
      stop_if_due(core, now_s);
      const StudyCore::Next next = core.next(now_s, /*asked=*/false, /*elsewhere=*/true);
      if (next.kind == StudyCore::Next::kStart)
        job.trial = core.trials()[static_cast<size_t>(next.trial)];
      return next;
    });
  }

  /// Here, while nobody else waits for it; who did gets the answer's trial or the next question.
  void think(std::unique_lock<std::mutex>& lock, const std::function<void()>& think) {
    lock.unlock();
    think();
    lock.lock();
    ++changes_;
    changed_.notify_all();
  }

  void stop_if_due(StudyCore& core, double now_s) {
    if (core.is_stopped()) return;
    if (config_.stop_token.stop_requested()) core.stop("asked to stop", now_s);
    if (const int signal = signal_; signal != 0 && !core.is_stopped())
      core.stop(signal == SIGINT ? "SIGINT" : "SIGTERM", now_s);
    if (core.is_stopped()) return;
    if (spec_.time_budget_s > 0 && now_s >= budget_end_s_)
      core.stop(concat("time budget of ", human_duration(spec_.time_budget_s)), now_s);
  }

  void wait_for_change(std::unique_lock<std::mutex>& lock, uint64_t seen, double until_s) {
    double seconds = until_s > 0 ? until_s - study_.now_s() : kLongestWaitS;
    if (spec_.time_budget_s > 0) seconds = std::min(seconds, budget_end_s_ - study_.now_s());
    if (!spec_.storage.empty()) seconds = std::min(seconds, kLookS);  // others may have been told
    changed_.wait_for(lock, bounded_wait(seconds), [&] { return changes_ != seen || error_; });
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
    if (!handle.too_long_.empty() && failure.first == Failure::kNone)
      failure = {Failure::kTimeout, handle.too_long_};
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
  HistoryBuilder histories_;  // before the study, whose observer fills it
  Study study_;
  double started_s_, budget_end_s_;
  std::mutex mutex_;  // never held while the study is called
  std::condition_variable changed_;
  uint64_t changes_ = 0;  // ends of trials, and wishes to stop
  std::exception_ptr error_;
  std::atomic<int> signal_ = 0;  // that asked the run to end
};

Action TrialHandle::report(Metrics metrics, const ReportOptions& options) {
  const Report report{.sequence = ++sequence_,
                      .step = options.step,
                      .metrics = std::move(metrics),
                      .checkpoint = options.checkpoint};
  auto [decision, study_ends] = trials_.report(number, report, lost_);
  reason_ = std::move(decision.reason);
  too_long_ = trials_.too_long(*this);
  reported_ = std::chrono::steady_clock::now();
  if (!too_long_.empty() && decision.action == Action::kContinue) {
    reason_ = too_long_;
    return Action::kStop;
  }
  if (!study_ends || decision.action != Action::kContinue) return decision.action;
  told_to_end_ = true;
  return Action::kStop;
}

RunResult run(const TrainFunction& train, const RunConfig& config) {
  return FunctionTrials(train, config).run();
}

}  // namespace muster::tune
