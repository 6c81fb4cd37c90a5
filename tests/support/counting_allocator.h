// All CPU memory of tensors, counted while a guard lives.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

namespace muster::test {

/// Bytes that are held, and the most of them since start_peak(). Any thread.
class Tally {
 public:
  void add(int64_t bytes) {
    const int64_t now = live_ += bytes;
    int64_t peak = peak_;
    while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
    }
  }
  int64_t live() const { return live_; }
  int64_t peak() const { return peak_; }
  void start_peak() { peak_ = live_.load(); }

  /// What the calling thread allocated, whoever frees it. Outlives the thread.
  static Tally& of_thread() { return *counted_in(); }
  /// What the calling thread allocates from now on counts in `tally`, which outlives it.
  static void set_of_thread(Tally& tally) { counted_in() = &tally; }

 private:
  static Tally*& counted_in() {
    static thread_local auto* tally = new Tally;
    return tally;
  }

  std::atomic<int64_t> live_{0}, peak_{0};
};

/// Stands before LibTorch's CPU allocator; there is one. Any thread. The size of a block stands
/// before it: oneDNN asks for blocks whose context is their memory.
class CountingAllocator final : public c10::Allocator {
 public:
  static CountingAllocator& instance() {
    static auto* const one = new CountingAllocator(c10::GetCPUAllocator());
    return *one;
  }

  c10::DataPtr allocate(size_t bytes) override {
    auto* base = static_cast<char*>(inner_->raw_allocate(bytes + kRoom));
    const Header header{static_cast<int64_t>(bytes), &Tally::of_thread()};
    std::memcpy(base, &header, sizeof header);
    all_.add(header.bytes);
    header.owner->add(header.bytes);
    return {base + kRoom, base + kRoom, &drop, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &drop; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  c10::Allocator* inner() const { return inner_; }
  Tally& all() { return all_; }

 private:
  struct Header {
    int64_t bytes;
    Tally* owner;
  };
  static constexpr size_t kRoom = 64;  // keeps the alignment

  explicit CountingAllocator(c10::Allocator* inner) : inner_(inner) {}

  static void drop(void* memory) {
    if (memory == nullptr) return;
    char* base = static_cast<char*>(memory) - kRoom;
    Header header;
    std::memcpy(&header, base, sizeof header);
    instance().all_.add(-header.bytes);
    header.owner->add(-header.bytes);
    instance().inner_->raw_deallocate(base);
  }

  c10::Allocator* inner_;
  Tally all_;
};

/// Counts from its construction on. Tensors made meanwhile may live longer: the allocator stays.
/// One at a time. LibTorch passes over an allocator of a lower priority than one before it without
/// a word, so nothing else in a test may set one.
class MemoryCount {
 public:
  MemoryCount() {
    c10::SetCPUAllocator(&counting(), kHighestPriority);
    start_ = counting().all().live();
    start_peak();
  }
  ~MemoryCount() { c10::SetCPUAllocator(counting().inner(), kHighestPriority); }
  MemoryCount(const MemoryCount&) = delete;

  int64_t live() const { return counting().all().live() - start_; }
  int64_t peak() const { return counting().all().peak() - start_; }
  void start_peak() { counting().all().start_peak(); }

 private:
  static constexpr uint8_t kHighestPriority = 255;
  static CountingAllocator& counting() { return CountingAllocator::instance(); }

  int64_t start_ = 0;
};

}  // namespace muster::test
