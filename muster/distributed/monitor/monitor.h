// Watches over the operations of one rank in one group, so that a failure names its culprit.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "muster/diagnose/record/flight_recorder.h"

namespace muster::distributed {

// Note [Naming the culprit]
// Every operation of a group passes a decorator (monitored_backend.h) that writes it into a flight
// recorder: some hundred nanoseconds. A thread apart from the training thread writes a heartbeat
// into the group's store: who this process is, how many collectives it has called and finished,
// what it waits for, and the marks of its chain (Note [Chain of operations]). Nobody reads the
// others' heartbeats but one neighbour's marks, until there is a suspicion: an operation takes
// longer than usual, or failed. Then that rank raises an alarm; all ranks beat five times as often
// and show their last 256 operations, and the suspicious rank reads everybody's. What it concludes
// (diagnosis.h) is written into the store as the verdict of the group, the first one counts, and
// every rank fails its operations with these words: a rank that fails because another survivor has
// hung up first still names the one who began it. Ranks go on only when all living ones know the
// verdict (or a short time is over), so that no survivor is ended by its launcher before it has
// spoken.
//
// What is detected when:
//   a different operation, dtype or size   two heartbeats, whatever the backend does with it
//   a process that ended (same host)       as soon as the backend fails, or two heartbeats after
//                                          the operation takes longer than usual
//   a process that is stopped              at the timeout (it may go on any time)
//   a host that is gone                    when the backend fails or the timeout is over, and three
//                                          heartbeats are missing
//   a rank that computes or waits          at the timeout
//   the rank that serves the store         the same; its peers then know nothing of each other

struct MonitorOptions {
  bool on = true;
  std::string group = "default";  ///< in messages and file names
  /// Between heartbeats. 0: a tenth of the group's timeout, between 50 ms and 1 s (0.1 s among
  /// threads).
  std::chrono::milliseconds heartbeat{0};
  size_t records = 1024;  ///< of the flight recorder, about 300 bytes each
  /// Each rank writes its flight record there when it fails; empty: nowhere.
  std::string flight_dir;
  /// A fault plan (muster/diagnose/record/fault_plan.h), for tests; or empty. Of this group, and of those
  /// that are made from it.
  std::string faults;
};

/// `options`, where they leave flight_dir or faults empty, completed by MUSTER_FLIGHT_DIR and
/// MUSTER_FAULTS. For groups of processes; thread ranks take nothing from the environment.
MonitorOptions with_environment(MonitorOptions options);

/// What a backend is wrapped with.
struct MonitorRequest {
  c10::intrusive_ptr<c10d::Store> store;
  int rank = 0;
  int world_size = 1;
  std::chrono::milliseconds timeout{};
  int server_rank = -1;  ///< which rank serves the store; -1: none of them, or it cannot die alone
  bool threads = false;  ///< ranks are threads of one process
  // Of a group that was made from another (Note [Groups of groups]):
  c10d::Backend* parent = nullptr;    ///< that one's backend, whose threads the monitor shares
  std::string path = {};              ///< in the store of the first of all groups
  std::vector<int> world_ranks = {};  ///< by rank: the rank in the first of all groups; else empty
  bool server_outside = false;        ///< a rank of that one which is not in this group serves it
};

/// The recorder of the monitor that a backend, as `monitored` made it, has around it; null without
/// one.
std::shared_ptr<diagnose::FlightRecorder> recorder_of(c10d::Backend& backend);

/// The backend with the faults of `options` in it and the monitor around it; itself if both are off
/// or the group has one rank. Throws a usage error for a bad fault plan.
c10::intrusive_ptr<c10d::Backend> monitored(c10::intrusive_ptr<c10d::Backend> backend,
                                            const MonitorRequest& request,
                                            const MonitorOptions& options);

}  // namespace muster::distributed
