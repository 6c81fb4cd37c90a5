// What the fake devices of the process share.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include "muster/testing/accelerator/device_memory.h"
#include "muster/testing/accelerator/fake_accelerator.h"
#include "muster/testing/accelerator/stream_order.h"

namespace muster::testing {

inline constexpr auto kFake = c10::DeviceType::PrivateUse1;

/// A copy between a device and pinned memory that the host has not waited for.
struct CopyUnderWay {
  Moment moment;
  bool to_host = false;
  at::Tensor pinned;    // flat
  at::Tensor shown;     // what the host should find there until then
  at::Tensor arriving;  // to_host: what it finds then
};

struct FakeDevice {
  explicit FakeDevice(c10::DeviceIndex index) : memory(index) {}
  DeviceMemory memory;
  at::Generator generator;
  std::atomic<int64_t> operators = 0;
  std::atomic<unsigned> streams_lent = 0;  // from the pool
};

/// One for the process and for its whole life, since LibTorch's registries are.
class Machine {
 public:
  /// Of the process; made by the first accelerator.
  static Machine& get();

  void begin(const FakeAcceleratorOptions& options);
  void end();

  int device_count() const { return count_.load(std::memory_order_acquire); }
  /// Which accelerator of the process: what an older one left in threads and events is void.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
  /// Throws a usage error if there is no such device.
  FakeDevice& device(int index);
  void check(c10::DeviceIndex index) { device(index); }

  // Memory. It lies in the current stream's pool.
  size_t allocate(c10::DeviceIndex device, size_t bytes);
  void give_back(const DeviceAddress& address);
  void record_stream(const DeviceAddress& address, const c10::Stream& stream);
  /// `read(memory)` under the lock.
  template <class Read>
  auto with_memory(int index, const Read& read) {
    FakeDevice& of = device(index);
    const std::lock_guard lock(mutex_);
    return read(of.memory);
  }

  // Streams and events.
  VectorClock mark(const c10::Stream& stream);
  void stream_waits(const c10::Stream& stream, const VectorClock& mark);
  void host_waits(const VectorClock& mark);
  void host_waits_for_device(c10::DeviceIndex device);

  // Operators. An operator is announced, then queued with what it uses; what it made is added.
  void announce(std::string_view op, c10::DeviceIndex device);
  void set_hook(OnOperator hook);
  bool watched() const { return races_.load(std::memory_order_relaxed) != Races::kIgnore; }
  struct TensorUse {
    at::Tensor tensor;
    bool write = false;
  };
  struct Queued {
    Moment moment;
    const std::string* op = nullptr;
  };
  Queued queue(std::string_view op, c10::DeviceIndex device, const std::vector<TensorUse>& uses);
  void made(const Queued& queued, const at::Tensor& result);
  void host_waits(const Queued& queued);

  /// Before a copy between a device and pinned memory: those under way to or from the same bytes
  /// are done, or it is a race with them.
  void settle(const Queued& queued, const at::Tensor& pinned, bool to_host);
  void under_way(CopyUnderWay copy);

  void set_races(Races races) { races_ = races; }
  std::vector<FakeRace> take_races();
  std::atomic<int> slow_queries = 0;

 private:
  Machine();
  size_t number_of(const c10::Stream& stream);
  FakeUse described(const MemoryUse& use) const;
  void found(FakeRace race);
  /// Takes the copies that `is_done` away, and does what they leave: bytes in pinned memory.
  void land(const std::function<bool(const CopyUnderWay& copy)>& is_done);
  const std::string* interned(std::string_view op);

  std::atomic<int> count_ = 0;
  std::atomic<uint64_t> generation_ = 0;
  std::atomic<Races> races_ = Races::kIgnore;
  std::atomic<bool> hooked_ = false;
  std::array<std::unique_ptr<FakeDevice>, FakeAccelerator::kMaxDevices> devices_;

  mutable std::mutex mutex_;  // of everything below, and of the devices' memory
  StreamOrder order_;
  std::deque<CopyUnderWay> copies_;
  std::vector<FakeRace> found_;
  std::set<std::string, std::less<>> names_;  // of operators; never shrinks
  std::shared_ptr<const OnOperator> hook_;
};

/// The calling thread's.
c10::DeviceIndex current_device();
void set_current_device(c10::DeviceIndex device);
c10::Stream current_stream(c10::DeviceIndex device);
void set_current_stream(const c10::Stream& stream);

}  // namespace muster::testing
