// A thread for each replica of a model.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include "muster/tensor/device/streams.h"

namespace at {
class ThreadLocalState;
}

namespace muster::parallel {

/// One thread per device, for as long as the object lives. The CPU may be named several times, and
/// has several replicas then.
class ReplicaThreads {
 public:
  using Task = std::function<void(int replica)>;
  /// Called on the replica's thread when its task threw, so that it can release the others.
  using Failed = std::function<void(int replica, const std::string& why)>;

  /// `intra_op_threads`: ATen's threads inside each replica's operations.
  ReplicaThreads(std::vector<c10::Device> devices, int intra_op_threads);
  ~ReplicaThreads();
  ReplicaThreads(const ReplicaThreads&) = delete;

  /// Runs task(i) on thread i for every i and returns when all have ended. In each, device i is
  /// current with a stream of its own, ordered as Note [Streams of replicas] says, and what
  /// LibTorch keeps per thread is the caller's: grad mode, inference mode, autocast, profiler,
  /// saved-tensor hooks. Throws the first error in time: a muster::Error that names replica and
  /// device, with the replica's own exception nested in it (std::rethrow_if_nested). Any thread but
  /// the replicas'; calls take turns.
  void run(const Task& task, const Failed& failed);

  /// Throws a usage error on one of the replicas' threads, where a run() would never end.
  void refuse_own_threads() const;

 private:
  struct Turn;
  void main(int replica, int intra_op_threads);
  void play(int replica, const Turn& turn, std::optional<c10::Stream>& stream);
  void work(int replica, const Turn& turn, std::optional<c10::Stream>& stream);
  const std::vector<c10::Device> devices_;
  std::mutex turns_;  // held for the whole of a run()
  std::mutex mutex_;  // of all that follows
  std::condition_variable wake_, ended_;
  const Turn* turn_ = nullptr;
  uint64_t turn_number_ = 0;
  size_t running_ = 0;
  bool closing_ = false;
  std::exception_ptr first_error_;
  std::vector<tensor::StreamMark> done_;
  std::vector<std::thread> threads_;
};

}  // namespace muster::parallel
