// A study with its storage: what happens is stored before anybody hears of it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "muster/tune/core/study_core.h"
#include "muster/tune/storage/storage.h"

namespace muster::tune {

/// Seconds since 1970. Another function than wall_clock_s in tests.
using Clock = std::function<double()>;
double wall_clock_s();

/// Sees stored events, in their order; under the study's lock, so it must not call the study.
using EventObserver = std::function<void(const StudyCore& core, std::span<const Event> events)>;

/// Any thread may call. Calls of several threads that come in while a transaction is being written
/// share the next one.
class Study {
 public:
  /// Opens spec.storage (in memory if empty), replays what is there, and takes back what a tuner
  /// that died had running. Throws a usage error for a study that is running already or whose
  /// space, metric … differ from the stored ones (with the differences), and as StudyCore and
  /// open_storage.
  explicit Study(const StudySpec& spec, Clock clock = &wall_clock_s, EventObserver observer = {});
  ~Study();

  /// call(core, now_s) under the lock; returns its result when the events that it made are stored.
  /// An exception of `call` passes through. Throws an environment error if they could not be
  /// stored: nobody may be told of them then; they are tried again with the next call.
  template <class Call>
  auto apply(Call&& call) {
    std::unique_lock lock(mutex_);
    if constexpr (std::is_void_v<decltype(call(core_, 0.0))>) {
      call(core_, clock_());
      store(lock);
    } else {
      auto result = call(core_, clock_());
      store(lock);
      return result;
    }
  }

  /// Tries to store what could not be stored. Throws as apply.
  void flush() {
    std::unique_lock lock(mutex_);
    store(lock);
  }

  /// Events that were there before; 0 for a new study.
  int64_t resumed_events() const { return resumed_events_; }
  double now_s() const { return clock_(); }

 private:
  struct Batch;
  int64_t tell_outside_trials(double now_s);
  void store(std::unique_lock<std::mutex>& lock);
  void write_open_batch(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  Clock clock_;
  EventObserver observer_;
  std::unique_ptr<TunerLock> tuner_lock_;  // null in memory
  std::unique_ptr<Storage> storage_;       // null in memory
  StudyCore core_;
  std::shared_ptr<Batch> open_;  // events that nobody writes yet
  bool writing_ = false;
  int64_t resumed_events_ = 0;
};

}  // namespace muster::tune
