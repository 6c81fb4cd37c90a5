// A study with its storage: what happens is stored before anybody hears of it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "muster/tune/core/study_core.h"
#include "muster/tune/storage/storage.h"

namespace muster::tune {

/// Seconds since 1970. Another function than wall_clock_s in tests.
using Clock = std::function<double()>;
double wall_clock_s();

/// How long a locked storage is waited for; see wait_for_lock.
class LockWait {
 public:
  LockWait(double patience_s, const std::function<void(const std::string& line)>& note);
  /// Waits a little. Throws, saying how long it was, if it has been long enough.
  void go_on(const StorageLocked& error) const;

 private:
  double patience_s_;
  const std::function<void(const std::string& line)>& note_;
  std::chrono::steady_clock::time_point since_;
  mutable bool said_ = false;
};

/// Sees stored events, in their order, whoever made them; while it runs nobody else is served, so it
/// must not call the study. What it throws ends nothing: it is not called again, and
/// Study::check_observer throws it.
using EventObserver = std::function<void(const StudyCore& core, std::span<const Event> events)>;

/// Calls `act` until no other program locks the storage any more, for so long; says once what is
/// waited for. Signals are their default's meanwhile.
template <class Act>
auto wait_for_lock(double patience_s,
                   const std::function<void(const std::string& line)>& note,
                   Act act) {
  const LockWait wait(patience_s, note);
  while (true) {
    try {
      return act();
    } catch (const StorageLocked& error) {
      wait.go_on(error);
    }
  }
}

struct StudyOptions {
  /// Runs trials until none is left, as only one process may at a time; false: starts single ones
  /// for somebody else (`muster study ask`), beside a tuner and others of its kind.
  bool tuner = true;
  /// False: no call asks for a trial (StudyCore::next), so that what was before is taken in faster.
  bool suggests = true;
  /// Of one that is no tuner and has no observer, true: what was before may be taken in by an outline
  /// (Note [Outlines]), so that the core does not know what became of trials that were over.
  bool outlines = false;
  double lock_patience_s = kLockPatienceS;
  /// A line for the user while opening waits for it, StudySpec::storage_patience_s in all.
  std::function<void(const std::string& line)> note = {};
};

// Note [Shared studies]
// Processes share a study by its log. A call takes SQLite's write lock, replays into its own core
// what others have appended since (Note [Event log]), decides, appends and commits. So a call is a
// transaction: its events are stored, or it has not happened. When storing fails after the call,
// the core is made anew from the log, and the caller tries again.

/// Any thread may call. Calls of several threads that come in while a transaction is being written
/// share the next one.
class Study {
 public:
  /// Opens spec.storage (in memory if empty), replays what is there, and takes back what a tuner
  /// that died had running. Throws a usage error for a study that is running already or whose
  /// space, metric … differ from the stored ones (with the differences), and as StudyCore and
  /// open_storage.
  explicit Study(const StudySpec& spec,
                 Clock clock = &wall_clock_s,
                 EventObserver observer = {},
                 StudyOptions options = {});
  ~Study();

  /// call(core, now_s), by one thread at a time; returns its result when the events that it made
  /// are stored. An exception of `call` passes through. Throws an environment error if they could
  /// not be stored: the core is as if the call had not been made, which may be made again.
  template <class Call>
  auto apply(Call&& call) {
    if constexpr (std::is_void_v<decltype(call(core_, 0.0))>) {
      run(
          [](void* made, double now_s, StudyCore& core) {
            (*static_cast<std::remove_reference_t<Call>*>(made))(core, now_s);
          },
          const_cast<void*>(static_cast<const void*>(&call)));
    } else {
      std::optional<decltype(call(core_, 0.0))> result;
      auto keep = [&](StudyCore& core, double now_s) { result.emplace(call(core, now_s)); };
      run(
          [](void* made, double now_s, StudyCore& core) {
            (*static_cast<decltype(keep)*>(made))(core, now_s);
          },
          &keep);
      return std::move(*result);
    }
  }

  /// call(core), which makes no events: what is known here, without the storage.
  template <class Call>
  auto look(Call&& call) {
    const Turn turn(*this);
    return call(std::as_const(core_));
  }

  /// Takes in what other processes have appended. Throws as apply.
  void catch_up();

  /// StudyCore::take_needless_checkpoints of what is stored.
  std::vector<std::string> take_needless_checkpoints();

  /// The trials, for a caller that needs the study no more.
  std::vector<Trial> take_trials();

  /// Throws what the observer has thrown.
  void check_observer() const;

  /// Events that were there before; 0 for a new study.
  int64_t resumed_events() const { return resumed_events_; }
  /// Events that were read for that: all of them, or those behind an outline.
  int64_t events_read() const { return events_read_; }
  double now_s() const { return clock_(); }

 private:
  using Made = void (*)(void* call, double now_s, StudyCore& core);
  /// A call that waits to be made.
  struct Waiting {
    Made made;
    void* call;
    std::exception_ptr error;
    bool done = false;
    std::condition_variable turn;
  };
  /// From its construction to its end nobody else uses core and storage.
  class Turn {
   public:
    explicit Turn(Study& study);
    ~Turn();

   private:
    Study& study_;
  };

  void run(Made made, void* call);
  void run_in_memory(Made made, void* call, std::unique_lock<std::mutex>& lock);
  void lead(std::unique_lock<std::mutex>& lock);
  void pass_on();
  void make(std::span<Waiting* const> calls);
  void transact(std::span<Waiting* const> calls);
  void follow(std::vector<Event> theirs);
  void rebuild();
  void take_in(const StudyOptions& options);
  bool lacks_what_waits();
  bool is_again(const WaitingTrial& trial) const;
  bool has_own_point(const WaitingTrial& trial) const;
  bool take_outline();
  void keep_outline(std::span<const Event> ours);
  bool keep_calls(const Event& newest, std::string& chain);
  void begin_calls(StudyCore& core);
  void offer_waiting();
  std::optional<GivenPoint> given_point(const WaitingTrial& trial);
  void open(const StudySpec& spec, const StudyOptions& options);
  void begin_tuner();
  void begin_asker(const StudySpec& spec);
  void tell_finished();
  void show(std::span<const Event> events);

  std::mutex mutex_;
  Clock clock_;
  EventObserver observer_;
  std::exception_ptr observer_error_;
  std::unique_ptr<TunerLock> tuner_lock_;  // of a tuner with a file
  std::unique_ptr<Storage> storage_;       // null in memory
  StudyCore core_;
  bool suggests_ = true;
  bool core_is_ahead_ = false;          // of the log: it is to be made anew
  Unlogged unlogged_;                   // of the core before the newest transaction
  std::vector<Event> unshown_;          // of others, which the observer has not seen
  int64_t shown_ = 0;                   // the newest event that it need not see any more
  std::vector<ForeignTrial> finished_;  // by Optuna, of which the searcher is to be told
  int64_t told_ = 0;                    // of them in the transaction that is being made
  std::deque<Waiting*> queue_;          // calls that nobody makes yet
  bool busy_ = false;                   // somebody has the turn
  std::condition_variable idle_;        // for those who want a turn and have no call
  int64_t resumed_events_ = 0, events_read_ = 0;
  int64_t outline_due_ = 0;  // with the event of this id or a later one
  bool calls_anew_ = false;  // the pieces of calls that are stored are of no use
};

}  // namespace muster::tune
