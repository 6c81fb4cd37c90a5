// The part of the monitor that decides; see Note [Naming the culprit].
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "muster/base/error.h"
#include "muster/base/json_fwd.h"
#include "muster/diagnose/record/failure_note.h"
#include "muster/distributed/meet/waited_time.h"
#include "muster/distributed/monitor/heartbeat_store.h"
#include "muster/distributed/monitor/monitor.h"
#include "muster/distributed/monitor/monitor_loop.h"
#include "muster/distributed/monitor/verdict.h"

namespace muster::distributed {

class LastWord;
class MonitoredWork;
using MonitoredWorkPtr = c10::intrusive_ptr<MonitoredWork>;

/// What the monitor must know of a backend.
struct BackendTraits {
  std::string name;
  /// Its threads complete its works' futures, and nothing interrupts a thread in its wait (gloo).
  /// Then a rank waits for the future, which the monitor can fail first.
  bool has_threads = false;
  /// It compares the ranks' calls itself and names who is missing: its errors are passed on with
  /// what the heartbeats add, and fail one operation, not the group.
  bool names_culprits = false;
};

/// Shared by the backend, its works and the monitor's thread. Any thread.
class Monitor : public std::enable_shared_from_this<Monitor> {
 public:
  using Clock = HeartbeatStore::Clock;

  /// `parent`: whose threads it shares; or null.
  Monitor(MonitorRequest request,
          MonitorOptions options,
          BackendTraits traits,
          const Monitor* parent = nullptr);
  ~Monitor();
  Monitor(const Monitor&) = delete;

  /// From now on the loop looks at it. `abort` interrupts the backend's waits when the group has
  /// failed. `last_word`: of the backend, or null; until `stop`.
  void start(std::function<void()> abort, LastWord* last_word);
  /// The loop is through with it. What is still open is then failed without a diagnosis when it
  /// fails.
  void stop();

  // For the loop.
  /// What there is to do; `next` becomes when to look again, if that is sooner. False: it has
  /// stopped.
  bool look(Clock::time_point& next);
  uint64_t version() const { return heartbeats_.version(); }
  void wait_until(uint64_t seen, Clock::time_point until) { heartbeats_.wait_until(seen, until); }
  void wake() { heartbeats_.wake(); }

  const std::shared_ptr<diagnose::FlightRecorder>& recorder() const { return recorder_; }
  const BackendTraits& traits() const { return traits_; }

  /// Throws what the group failed with, if it has.
  void check_open(const diagnose::OpRecord& op) const;
  bool has_failed() const { return failed_.load(std::memory_order_acquire); }
  bool threw() const { return threw_; }

  /// Compares a call that this rank has not made before with what the first rank called under this
  /// number, before the backend sees it: gloo ends the process when it receives more than it
  /// expects. Throws the group's verdict if they differ.
  void check_first_call(const diagnose::OpRecord& op);
  /// The backend has refused the call that was posted last: its number is the next call's.
  void take_back(const diagnose::OpRecord& op);

  void add(const MonitoredWorkPtr& work);
  void remove(MonitoredWork& work);
  /// The backend failed the work: the monitor finds out why, and settles it.
  void failed(const MonitoredWorkPtr& work, std::exception_ptr error);
  void succeeded(const diagnose::OpRecord& op) const;
  /// This rank gives the group up for a reason of its own: its flight record is written, unless the
  /// failure of an operation has written it and nothing was called since. `why` may be empty; where
  /// the process says it later (note_failure), it is put in.
  void failed_by_itself(const std::string& why);
  void set_timeout(std::chrono::milliseconds timeout) { timeout_ms_ = timeout.count(); }

  /// "all_reduce sum float32[1000] #41 of group default (gloo, rank 0 of 4)".
  std::string title(const diagnose::OpRecord& op) const;

 private:
  struct Failure {
    MonitoredWorkPtr work;
    std::exception_ptr error;
  };

  void close();
  /// Returns when to look again.
  Clock::time_point tick();
  Clock::time_point tick_or_fail();
  static double age_s(const diagnose::OpRecord& op);
  std::vector<MonitoredWorkPtr> open_works();
  void poll(const std::vector<MonitoredWorkPtr>& works);
  MonitoredWorkPtr oldest(const std::vector<MonitoredWorkPtr>& works) const;
  std::vector<diagnose::PeerView> peers() const;
  diagnose::Diagnosis diagnose_now(const diagnose::OpRecord& op) const;
  /// The same where ranks are stopped.
  std::optional<diagnose::Diagnosis> stopped_now(const diagnose::OpRecord& op) const;
  void handle(Failure failure);
  void add_to_backends_error(const Failure& failure, const Error& error);
  void conclude(const diagnose::Diagnosis& diagnosis, const std::string& cause);
  void tell_launcher(const Verdict& verdict, bool saw_an_end) const;
  std::chrono::milliseconds limit_of(const MonitoredWork& work) const;
  Error failure_of(const diagnose::OpRecord& op) const;
  bool is_proven(const diagnose::Diagnosis& diagnosis, bool is_late);
  bool is_certain(const diagnose::OpRecord& op, const diagnose::Diagnosis& diagnosis);
  diagnose::Diagnosis find_out(const diagnose::OpRecord& op, std::chrono::milliseconds patience);
  void fail_group(const std::string& verdict);
  void fail_works();
  std::string world_words(const std::vector<int>& ranks) const;
  int world_rank(int rank) const;
  void hear_own_failures();
  Json record_now(const std::string& verdict) const;
  std::string record_file() const;
  std::string write_record(const std::string& verdict);
  void let_go();
  bool stopping();
  /// So much counts of a pause between two looks; see WaitedTime.
  Clock::duration half_heartbeat() const { return Clock::duration(heartbeats_.heartbeat()) / 2; }
  std::chrono::milliseconds timeout() const { return std::chrono::milliseconds(timeout_ms_); }

  const MonitorRequest request_;
  const MonitorOptions options_;
  const BackendTraits traits_;
  std::shared_ptr<diagnose::FlightRecorder> recorder_;
  HeartbeatStore heartbeats_;
  const std::shared_ptr<MonitorLoop> loop_;
  std::function<void()> abort_;
  LastWord* last_word_ = nullptr;
  // Of the loop's thread alone: calls that differ, since when and how long it has seen these, and any
  // at all; the oldest operation whose time is over without a word of who is missing.
  struct Difference {
    std::string which;
    Clock::time_point since;
    WaitedTime seen, any;
  };
  struct Over {
    uint64_t op;
    WaitedTime waited;
  };
  std::optional<Difference> difference_;
  std::optional<Over> over_;
  std::atomic<int64_t> timeout_ms_;
  std::atomic<bool> failed_{false};
  std::atomic<int> suspects_{0};  // calls of ours that differ from the first rank's

  mutable std::mutex mutex_;
  std::list<MonitoredWorkPtr> open_;  // oldest first
  std::vector<Failure> failures_;
  std::string verdict_;
  std::atomic<bool> threw_ = false;  // this rank failed by itself
  std::string why_;                  // what that said first; empty: unknown
  bool stopping_ = false;
  bool started_ = false;                      // of the thread that starts and stops it
  std::unordered_set<uint64_t> known_calls_;  // fingerprints
  HeartbeatStore::Call refused_;              // the last one, attempt counted from 1
  std::mutex record_mutex_;                   // of what is written, and of the next
  std::optional<uint64_t> recorded_calls_;    // operations of this rank when it was written last
  diagnose::FailureListener own_failures_;
};

}  // namespace muster::distributed
