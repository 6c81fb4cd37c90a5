// All CPU memory of tensors, counted while a guard lives.
#pragma once

#include <atomic>
#include <cstring>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

namespace muster::test {

/// Stands before LibTorch's CPU allocator; there is one. Any thread. The size of a block stands
/// before it: oneDNN asks for blocks whose context is their memory.
class CountingAllocator final : public c10::Allocator {
 public:
  static CountingAllocator& instance() {
    static auto* const one = new CountingAllocator(c10::GetCPUAllocator());
    return *one;
  }

  c10::DataPtr allocate(size_t bytes) override {
    auto* base = static_cast<char*>(inner_->raw_allocate(bytes + kHeader));
    std::memcpy(base, &bytes, sizeof bytes);
    const int64_t now = live_ += static_cast<int64_t>(bytes);
    int64_t peak = peak_;
    while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
    }
    return {base + kHeader, base + kHeader, &drop, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &drop; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  c10::Allocator* inner() const { return inner_; }
  int64_t live() const { return live_; }  ///< bytes
  int64_t peak() const { return peak_; }  ///< bytes, since start_peak()
  void start_peak() { peak_ = live_.load(); }

 private:
  static constexpr size_t kHeader = 64;  // keeps the alignment

  explicit CountingAllocator(c10::Allocator* inner) : inner_(inner) {}

  static void drop(void* memory) {
    if (memory == nullptr) return;
    char* base = static_cast<char*>(memory) - kHeader;
    size_t bytes = 0;
    std::memcpy(&bytes, base, sizeof bytes);
    instance().live_ -= static_cast<int64_t>(bytes);
    instance().inner_->raw_deallocate(base);
  }

  c10::Allocator* inner_;
  std::atomic<int64_t> live_{0}, peak_{0};
};

/// Counts from its construction on. Tensors made meanwhile may live longer: the allocator stays.
class MemoryCount {
 public:
  MemoryCount() {
    c10::SetCPUAllocator(&counting(), /*priority=*/100);
    start_ = counting().live();
    start_peak();
  }
  ~MemoryCount() { c10::SetCPUAllocator(counting().inner(), /*priority=*/100); }
  MemoryCount(const MemoryCount&) = delete;

  int64_t live() const { return counting().live() - start_; }
  int64_t peak() const { return counting().peak() - start_; }
  void start_peak() { counting().start_peak(); }

 private:
  static CountingAllocator& counting() { return CountingAllocator::instance(); }

  int64_t start_ = 0;
};

}  // namespace muster::test
