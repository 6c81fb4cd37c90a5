// Accelerators for tests on machines without one: capped memory, streams whose races are found.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <c10/core/Device.h>

namespace muster::testing {

// Note [Fake accelerator]
// LibTorch leaves one kind of device, PrivateUse1, to whoever brings one. Here it is "fake", and
// its memory is the host's: each device has a range of addresses that kernels read, and behind
// another range, which tensors show, nothing at all, so that a host that reads device memory ends
// by SIGSEGV as with CUDA. An operator runs as the CPU's kernel on the same bytes (Note [Kernels in
// place]), so numbers are the CPU's bit for bit. It runs at once, in the order of the calls; what a
// device that runs streams beside each other might have done instead is found by looking (Note
// [Races]).
//
// What LibTorch knows of a kind of device cannot be taken back. So the first FakeAccelerator of a
// process registers, and from then on "fake" is the process's accelerator, with CUDA or without:
// such tests have a program of their own. Those who make none pay nothing: no code runs before
// main.
//
// A program gives its users a fake device by making one of these before anything else, for as long
// as it runs: c10::Device("fake:0") can be read from then on, and code that asks for the device of
// a tensor instead of for CUDA needs nothing more.

/// What happens when two streams use the same memory, at least one of them writes, and nothing
/// makes the one wait for the other.
enum class Races {
  kIgnore,   ///< nothing is looked for; operators cost half as much
  kCollect,  ///< for take_races()
  kThrow,    ///< the second operator throws a usage error and does not run
};

struct FakeAcceleratorOptions {
  int devices = 1;                              ///< fake:0 and so on, at most kMaxDevices
  int64_t bytes_per_device = int64_t{1} << 30;  ///< at most kMaxBytes
  Races races = Races::kThrow;
  bool poison = false;  ///< memory is filled with NaN when it is taken and when it is freed
  /// A tensor lies in one piece within the capacity: memory may be free, and in pieces between others.
  bool in_pieces = false;
  /// Memory with a record_stream() is free once the host has waited for the device, as if the
  /// stream were busy until then.
  bool late_frees = false;
};

/// An operator's use of memory.
struct FakeUse {
  std::string op;  ///< as it reaches the device: "aten::mul", for mul_(2) as well
  int device = 0;
  int64_t stream = 0;  ///< 0: the default one
  bool write = false;
};

struct FakeRace {
  enum class Kind {
    kUnordered,  ///< two operators on streams that do not wait for each other
    kFreed,      ///< `second` allocates on the stream where memory was freed that `first` may be at
    kHostWrite,  ///< the host wrote pinned memory while `first`, a copy, was under way
  };

  Kind kind = Kind::kUnordered;
  FakeUse first;
  FakeUse second;

  /// "aten::mul on stream 1 of fake:0 reads memory that aten::fill_ on stream 0 of fake:0 writes,
  /// …"
  std::string text() const;
};

/// Bytes are rounded up to 512 per tensor, as CUDA's allocator does.
struct FakeMemory {
  int64_t live = 0;         ///< of tensors, and of workspaces while kernels run
  int64_t peak = 0;         ///< the most of `live` since reset_peak
  int64_t reserved = 0;     ///< live, and freed but kept for the next tensor
  int64_t allocations = 0;  ///< how many so far
  int64_t blocks = 0;       ///< how many are live
  int64_t out_of_memory = 0;
};

/// Called before each operator that runs on a device, in the thread that runs it: to count, to
/// wait, to throw.
using OnOperator = std::function<void(std::string_view op, c10::Device device)>;

/// The devices, for as long as it lives; one at a time, any number of them after each other. Any
/// thread may call. Tensors may outlive it: their memory stays until they go, no operator takes
/// them any more, and the next accelerator does not count them.
///
/// Streams, events, memory counters, generators and autocast are LibTorch's own: c10::Event,
/// c10::StreamGuard, at::accelerator::getDeviceStats, emptyCache and so on. Memory that does not
/// fit throws c10::OutOfMemoryError; operators over several devices are refused with LibTorch's
/// sentence.
class FakeAccelerator {
 public:
  static constexpr int kMaxDevices = 16;
  static constexpr int64_t kMaxBytes = int64_t{8} << 30;

  /// Throws a usage error if there is one already or an option is out of range, and an environment
  /// error where PrivateUse1 is taken or addresses are refused.
  explicit FakeAccelerator(const FakeAcceleratorOptions& options = {});
  ~FakeAccelerator();
  FakeAccelerator(const FakeAccelerator&) = delete;
  FakeAccelerator& operator=(const FakeAccelerator&) = delete;

  /// fake:`index`, whether or not there is one.
  static c10::Device device(int index);
  int device_count() const;

  /// From now on; may be less than what is live.
  void set_capacity(int device, int64_t bytes);
  /// The nth allocation from now on (1: the next) throws c10::OutOfMemoryError, and with
  /// `all_after` those behind it. 0 takes that back.
  void fail_allocation(int device, int64_t nth, bool all_after = false);
  FakeMemory memory(int device) const;
  void reset_peak(int device);

  /// An empty one takes it away.
  void on_operator(OnOperator hook);
  /// How many ran on the device so far.
  int64_t operators(int device) const;

  void set_races(Races races);
  /// Those found since the last call, in order; at most 1000 are kept.
  std::vector<FakeRace> take_races();
  /// query() of each stream, and of each event recorded from now on, says "not yet" so many times.
  void set_slow_queries(int times);
};

}  // namespace muster::testing
