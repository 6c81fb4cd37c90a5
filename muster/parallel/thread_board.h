// Where ranks that are threads of one process meet: collectives by direct reads of each other's
// tensors.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "muster/parallel/streams.h"

namespace muster::parallel {

// Note [Thread ranks]
// Ranks of one process share memory, so a collective needs no messages. Each rank posts its tensors
// under the sequence number of the operation and goes on; the rank that completes the set does the
// work for all, in rank order, and completes every rank's Work. Posting never blocks, so operations
// are asynchronous without a helper thread, any number may be in flight, and sums are bit-equal
// from run to run: ((r0 + r1) + r2) + r3. The board's mutex orders the tensors' memory. A rank that
// ends or fails leaves the board; whoever needs it from then on is told its name at once instead of
// hanging.

/// One rank's part in one operation.
struct Contribution {
  c10d::OpType op = c10d::OpType::UNKNOWN;
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> outputs;
  int root = 0;
  c10d::ReduceOp reduce_op;
  std::vector<int64_t> output_splits;  ///< all-to-all only: rows to take from each rank
  std::vector<int64_t> input_splits;   ///< all-to-all only: rows to give to each rank

  /// "allreduce sum float32[1000]": what must agree between ranks, and what an error shows.
  std::string describe() const;
};

/// A c10d::Work completed by whichever thread runs the operation.
class ThreadWork : public c10d::Work {
 public:
  ThreadWork(int rank, c10d::OpType op, uint64_t sequence, std::vector<at::Tensor> outputs);

  void complete();
  void fail(const std::string& text);

  bool wait(std::chrono::milliseconds timeout) override;
  std::vector<at::Tensor> result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  uint64_t getSequencenumber() const override { return sequence_; }
  int sourceRank() const override { return source_; }
  void set_source(int rank) { source_ = rank; }

 private:
  uint64_t sequence_;
  int source_ = -1;
  std::vector<at::Tensor> outputs_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

/// Shared by the backends of all ranks of one group. Every member may be called from any thread.
class ThreadBoard {
 public:
  ThreadBoard(int world_size, std::chrono::milliseconds timeout);
  ~ThreadBoard();
  ThreadBoard(const ThreadBoard&) = delete;

  int world_size() const { return world_size_; }

  /// Collective number `sequence` of this rank. Never blocks. Throws if the board was closed.
  c10::intrusive_ptr<c10d::Work> post(int rank, uint64_t sequence, Contribution contribution);

  /// Point to point: completes when both sides are there. `source` -1 takes from any rank.
  c10::intrusive_ptr<c10d::Work> send(int from, int to, int tag, at::Tensor tensor);
  c10::intrusive_ptr<c10d::Work> receive(int source, int to, int tag, at::Tensor tensor);

  /// The rank takes part in nothing any more. Fails whatever waits for it; `why` is empty for a
  /// normal end.
  void leave(int rank, const std::string& why);

  void set_timeout(std::chrono::milliseconds timeout);

 private:
  using Clock = std::chrono::steady_clock;
  struct Collective {
    std::vector<Contribution> parts;
    std::vector<c10::intrusive_ptr<ThreadWork>> works;  // null: not arrived
    std::vector<StreamMark> ready;  // by rank; see Note [Collectives between devices]
    int arrived = 0;
    Clock::time_point deadline;
  };
  struct Pending {
    int from;
    int to;
    int tag;
    bool sends;
    at::Tensor tensor;
    c10::intrusive_ptr<ThreadWork> work;
    Clock::time_point deadline;
    StreamMark ready;
  };

  void watch();
  std::string missing_text(uint64_t sequence,
                           const Collective& op,
                           const std::string& reason) const;
  std::string departure(int rank) const;

  const int world_size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::chrono::milliseconds timeout_;
  std::map<uint64_t, Collective> collectives_;
  std::vector<Pending> pending_;
  std::map<int, std::string> left_;  // rank -> why
  uint64_t messages_ = 0;
  bool closing_ = false;
  std::thread watchdog_;
};

/// Runs a complete collective: parts[r] is rank r's. Pure but for the output tensors. Throws a
/// usage error if the parts do not fit each other.
void run_collective(std::vector<Contribution>& parts);

}  // namespace muster::parallel
