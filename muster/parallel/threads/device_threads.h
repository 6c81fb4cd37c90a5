// A thread for each device, or for each part of a model that has one.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <c10/core/Device.h>

namespace muster::parallel {

/// Throws a usage error for a device that this process cannot use, with the reason.
void require_device(c10::Device device);

/// One thread per device, for as long as the object lives. The CPU may be named several times, and
/// has several threads then.
class DeviceThreads {
 public:
  using Task = std::function<void(int place)>;
  /// Called on the place's thread when its task threw, so that it can release the others; with -1,
  /// on the caller's, when an Overseer gave the run up.
  using Failed = std::function<void(int place, const std::string& why)>;

  /// Looks after a run from the caller's thread.
  struct Overseer {
    std::chrono::milliseconds every{0};
    /// An error ends the run: the others are released, those who do not come back by the next look
    /// are left behind, and it is thrown. They keep copies of task and failed, and the next run()
    /// waits for them as long.
    std::function<std::exception_ptr()> look;
  };

  /// `who` they are in errors: "replica". `intra_op_threads`: ATen's threads inside the operations
  /// of each.
  DeviceThreads(std::vector<c10::Device> devices, int intra_op_threads, std::string who);
  /// Waits for all threads but those that an Overseer left behind.
  ~DeviceThreads();
  DeviceThreads(const DeviceThreads&) = delete;

  /// Runs task(i) on thread i for every i and returns when all have ended. In each, device i is
  /// current with a stream of its own, ordered as Note [Streams of replicas] says, and what
  /// LibTorch keeps per thread is the caller's: grad mode, inference mode, autocast, profiler,
  /// saved-tensor hooks. Throws the first error in time: a muster::Error that names place and
  /// device, with the task's own exception nested in it (std::rethrow_if_nested). Any thread but
  /// these; calls take turns.
  void run(const Task& task, const Failed& failed, const Overseer& overseer);
  void run(const Task& task, const Failed& failed) { run(task, failed, Overseer()); }

  /// Whether nobody is at work, nor left behind.
  bool all_at_rest() const;

  /// Throws a usage error on one of these threads, where a run() would never end.
  void refuse_own_threads() const;

 private:
  struct Turn;
  struct Shared;
  void await_those_left_behind(std::unique_lock<std::mutex>& lock, const Overseer& overseer) const;

  std::mutex turns_;  // held for the whole of a run()
  std::shared_ptr<Shared> shared_;
  std::vector<std::thread> threads_;
};

}  // namespace muster::parallel
