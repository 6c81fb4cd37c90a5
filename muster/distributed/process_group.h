// The ranks that train one model together, and what they can do together.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "muster/base/rank_env.h"
#include "muster/distributed/call/messages.h"
#include "muster/distributed/monitor/monitor.h"
#include "muster/distributed/work.h"

namespace muster::distributed {

struct BackendEntry;

/// torch.distributed's default of 30 minutes.
inline constexpr std::chrono::milliseconds kDefaultTimeout = std::chrono::minutes(30);

struct GroupOptions {
  /// auto, a name of `muster list backends`, or cpu:A,cuda:B; cpu:auto for a model on the CPU of a
  /// machine that has devices, too.
  std::string backend = "auto";
  std::chrono::milliseconds timeout = kDefaultTimeout;  ///< of the meeting and of each operation
  /// Who names the culprit when an operation fails; costs some 0.5 µs each.
  MonitorOptions monitor;
  /// Where this rank's model is; all ranks say the same kind. With `auto` the group has a backend
  /// for the CPU and one for that kind, or for the CPU alone. Tensors of a kind that none of the
  /// group's backends moves go by host memory (Note [Staged tensors]). Not said: a backend for the
  /// CPU, and one for CUDA where there is one.
  std::optional<at::Device> device;
  /// What is started, which must be equal on all ranks: "muster train". Empty: the executable's name.
  std::string program;
  /// Hears, once, whom this rank waits for when the others take longer than ten seconds to come: a line of
  /// text, on the calling thread.
  std::function<void(const std::string&)> waiting;
};

/// Of one message.
struct MessageOptions {
  int tag = 0;                           ///< 0 or more
  std::chrono::milliseconds timeout{0};  ///< 0: the group's
  /// Of a send: nobody writes to the tensor's memory until the message has been received. Groups of
  /// threads take no copy then; others may.
  bool stays_unchanged = false;
};

/// The colour of ranks that go into no group, as MPI_UNDEFINED.
inline constexpr int64_t kNoColor = -1;

/// Of a group that is made from another. Ranks of one group say the same.
struct SplitOptions {
  std::string name;  ///< in messages and file names; empty: made from the parent's
  std::chrono::milliseconds timeout{0};  ///< of its operations; 0: the parent's
};

/// A handle on a group, cheap to copy; copies are the same group. Used by one rank's thread at a
/// time. There is no global group: it is passed to whoever needs it. Collectives must be called by
/// all ranks in the same order.
class ProcessGroup {
 public:
  int rank() const;
  int world_size() const;
  const std::string& backend() const;
  /// What that backend can do. A group that has several has the device's here.
  const BackendEntry& backend_entry() const;
  /// Why this backend, in words: "asked for", or what `auto` found: "auto; not nccl: …".
  const std::string& backend_reason() const;

  /// c10d's own handle, for everything that is not here.
  const c10::intrusive_ptr<c10d::ProcessGroup>& c10d() const;
  const c10::intrusive_ptr<c10d::Store>& store() const;

  /// Where this group's tensors live: the CPU, or this rank's device.
  at::Device device() const;
  /// From and to where weights and state travel that are for a host: the CPU, where a message takes
  /// nothing of a device's memory, or device(), if this group moves no tensors of the CPU.
  at::Device host_device() const;

  // Collectives: any shape and dtype that the backend moves. They block until this rank has the
  // result; the same with _async return at once, see Work. They throw a usage error for a tensor
  // that cannot be moved, before anybody waits, and an environment error that names the culprit
  // when one of the ranks does not come, fails, or calls something else.

  /// In place. Sums of sparse COO tensors, too.
  void all_reduce(at::Tensor tensor, c10d::ReduceOp op = c10d::ReduceOp::SUM) const;
  Work all_reduce_async(at::Tensor tensor, c10d::ReduceOp op = c10d::ReduceOp::SUM) const;
  /// In place on the root; what the others' tensors hold afterwards is not said.
  void reduce(at::Tensor tensor, int root = 0, c10d::ReduceOp op = c10d::ReduceOp::SUM) const;
  Work reduce_async(at::Tensor tensor, int root = 0, c10d::ReduceOp op = c10d::ReduceOp::SUM) const;
  void broadcast(at::Tensor tensor, int root = 0) const;
  Work broadcast_async(at::Tensor tensor, int root = 0) const;
  /// [world_size, …] of the ranks' tensors, which have one shape and dtype.
  /// `timeout`: of this call; 0: the group's.
  at::Tensor all_gather(const at::Tensor& tensor, std::chrono::milliseconds timeout = {}) const;
  Work all_gather_async(const at::Tensor& tensor) const;
  /// The same on the root alone; undefined on the others.
  at::Tensor gather(const at::Tensor& tensor, int root = 0) const;
  Work gather_async(const at::Tensor& tensor, int root = 0) const;
  /// Row r of the root's `all` // [world_size, …] becomes `tensor` // […] of rank r. Other ranks
  /// leave `all` undefined.
  void scatter(at::Tensor tensor, const at::Tensor& all = {}, int root = 0) const;
  Work scatter_async(at::Tensor tensor, const at::Tensor& all = {}, int root = 0) const;
  /// The sum over the ranks of row rank() of their `all` // [world_size, …] -> […]
  at::Tensor reduce_scatter(const at::Tensor& all, c10d::ReduceOp op = c10d::ReduceOp::SUM) const;
  Work reduce_scatter_async(const at::Tensor& all, c10d::ReduceOp op = c10d::ReduceOp::SUM) const;
  /// Row r goes to rank r; row r of the result is from rank r // [world_size, …]
  at::Tensor all_to_all(const at::Tensor& all) const;
  Work all_to_all_async(const at::Tensor& all) const;
  /// The next `counts[r]` rows go to rank r. // [sum of counts, …] -> [rows of all that are for
  /// this rank, …], those of rank 0 first. The ranks tell each other their counts first.
  at::Tensor all_to_all(const at::Tensor& rows, const std::vector<int64_t>& counts) const;
  void barrier() const;
  Work barrier_async() const;

  // Messages from one rank to another: Note [Messages] in call/messages.h says what is buffered,
  // what waits, in which order they come, and what a timeout ends. What they throw concerns them
  // alone.

  /// Waits for nobody: the tensor may be written when it returns.
  void send(const at::Tensor& tensor, int to, const MessageOptions& options = {}) const;
  /// Its wait() returns when the message has left this rank.
  Work send_async(const at::Tensor& tensor, int to, const MessageOptions& options = {}) const;
  /// In place, a message of the tensor's dtype and number of elements; kAnyRank: of whoever sends.
  /// Returns who sent it.
  int recv(at::Tensor tensor, int from, const MessageOptions& options = {}) const;
  /// Work::source() tells who sent it.
  Work recv_async(at::Tensor tensor, int from, const MessageOptions& options = {}) const;

  /// Bytes of any length, also none, by rank. On the root alone for gather_text, else empty.
  /// `timeout`: of each of its two calls; 0: the group's.
  std::vector<std::string> all_gather_text(const std::string& text,
                                           std::chrono::milliseconds timeout = {}) const;
  std::vector<std::string> gather_text(const std::string& text, int root = 0) const;
  /// The root's.
  std::string broadcast_text(const std::string& text, int root = 0) const;

  // Groups of some of the ranks: Note [Groups of groups] in monitor/heartbeat_store.h. They have
  // the backends, the device and the monitor of this group, and share its threads and its
  // connection to the store; each may be dropped before or after the other, and may be split again.
  // Collective over this group, also for those who go into none.

  /// As MPI_Comm_split: ranks of one colour become a group, ordered by key, then by rank. Nothing
  /// for kNoColor. Throws a usage error on all ranks for other colours below 0, or ranks of one
  /// colour that do not say the same; an environment error on all ranks if one of the groups cannot
  /// be made.
  std::optional<ProcessGroup> split(int64_t color,
                                    int64_t key = 0,
                                    const SplitOptions& options = {}) const;
  /// One group of these ranks, which have the places in it that they have in the list; nothing on
  /// others. All ranks give the same list.
  std::optional<ProcessGroup> subgroup(const std::vector<int>& ranks,
                                       const SplitOptions& options = {}) const;
  /// How long an operation may take that says no time of its own: it, or a message.
  std::chrono::milliseconds timeout() const;
  /// From the next call on, and of the groups that are made from this one from now on; those that
  /// are there keep theirs. All ranks say the same, at the same place among their calls. Messages
  /// between hosts keep the time that the group was made with. Throws a usage error for less than 1 ms.
  void set_timeout(std::chrono::milliseconds timeout) const;

  /// What rank `rank` of this group is in the group from which this one was made, and that one, to
  /// the first: what a launcher calls it.
  int world_rank(int rank) const;

  /// This rank takes part in nothing of the group any more, nor of those that are made from it, because
  /// of `why`, its own error: whoever waits for it there gets an error, now or when it has dropped its
  /// handles, which comes next. Groups that this one was made from go on. Not collective.
  void leave(const std::string& why) const;

  /// Rank `rank`, which goes on until it ends of it by itself, has told this one why it failed, and
  /// this one throws `what` because of that: a launcher takes its end for a consequence. Nothing
  /// happens where the ranks are threads. See Note [Who was first] in
  /// diagnose/record/failure_note.h.
  void note_told_failure(int rank, const std::string& what) const;

  /// Made by init_process_group and ThreadWorld.
  struct State;
  explicit ProcessGroup(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<State> state_;
};

/// The recorder of this rank in the group; null where the monitor is off. It may outlive the group.
std::shared_ptr<const diagnose::FlightRecorder> flight_recorder(const ProcessGroup& group);

/// Tells the monitor (and the fault plan) which optimizer step begins: messages and records name
/// it. Nothing happens where the monitor is off.
void mark_step(const ProcessGroup& group, int64_t step);

/// The group of this process, from what its launcher set. Without a launcher: a group of one, which
/// needs no network. Collective. Throws a usage error for an unknown backend or a rank started
/// twice, an environment error for a port in use, ranks that do not come, or a backend that is not
/// available here.
ProcessGroup init_process_group(const GroupOptions& options = {},
                                const std::optional<RankEnv>& env = rank_env_from());

class ThreadExchange;

/// Groups for ranks that are threads of this process. group(r) is for the thread that plays rank r;
/// every rank's thread takes its own. `backend` may also be one that connects processes (shm,
/// gloo), to run its code inside one process. `hosts`, if given, are names of hosts by rank, which
/// a backend between hosts then takes for real.
class ThreadWorld {
 public:
  explicit ThreadWorld(int world_size,
                       std::chrono::milliseconds timeout = kDefaultTimeout,
                       std::string backend = "thread",
                       std::vector<std::string> hosts = {},
                       MonitorOptions monitor = {});
  ~ThreadWorld();

  ProcessGroup group(int rank) const;
  int world_size() const;

  /// Runs `rank_main` on a thread per rank and joins them all; operators use `intraop_threads` in each, and a
  /// backward stays on its rank's thread, so that ranks may share a device. A rank that throws leaves: who waits
  /// for it gets an error. The first error in time is rethrown, with its rank.
  void run(const std::function<void(ProcessGroup group)>& rank_main,
           int intraop_threads = 1) const {
    run(rank_main, intraop_threads, Overdue());
  }

  /// A thread that does not end cannot be ended. `tell` hears of ranks that have not ended `patience`
  /// after the first one threw, and of the error that run() would throw, once, on the caller's thread;
  /// when it returns, run() waits on. A program ends its process there.
  struct Overdue {
    std::chrono::milliseconds patience = std::chrono::seconds(30);
    std::function<void(const std::vector<int>& ranks, const std::exception_ptr& error)> tell = {};
  };
  void run(const std::function<void(ProcessGroup group)>& rank_main,
           int intraop_threads,
           const Overdue& overdue) const;

  /// The rank ended (`why` empty) or failed. Whoever waits for it gets an error that names it.
  void leave(int rank, const std::string& why) const;

 private:
  std::shared_ptr<ThreadExchange> exchange_;
  c10::intrusive_ptr<c10d::Store> store_;
  std::chrono::milliseconds timeout_;
  std::string backend_;
  std::vector<std::string> hosts_;
  MonitorOptions monitor_;
};

}  // namespace muster::distributed
