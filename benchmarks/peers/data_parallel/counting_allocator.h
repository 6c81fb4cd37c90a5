// Bytes of tensors by the device that they would be on, where all devices are the CPU.
#pragma once

#include <map>
#include <mutex>
#include <unordered_map>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

/// Puts itself before LibTorch's CPU allocator while it is on. Lives until the process ends.
class CountingAllocator : public c10::Allocator {
 public:
  void set_on(bool on) {
    {
      const std::lock_guard lock(mutex_);
      alive_.clear();
    }
    c10::SetCPUAllocator(on ? this : base_, 255);
  }

  /// What the calling thread makes from now on is that device's. 0 at first.
  static int& device_of_thread() {
    thread_local int device = 0;
    return device;
  }

  /// Of the tensors made since set_on(true) for `device`, those that still live.
  int64_t alive_on(int device) {
    const std::lock_guard lock(mutex_);
    return alive_[device];
  }

  /// The context is the memory itself, as LibTorch's raw_allocate() wants it.
  c10::DataPtr allocate(size_t bytes) override {
    void* data = base_->raw_allocate(bytes);
    if (data != nullptr) add(data, {static_cast<int64_t>(bytes), device_of_thread()});
    return {data, data, &CountingAllocator::free_block, at::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &CountingAllocator::free_block; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  /// The one of the process.
  static CountingAllocator& instance() {
    static auto* counting = new CountingAllocator;  // outlives every tensor
    return *counting;
  }

 private:
  struct Block {
    int64_t bytes;
    int device;
  };
  CountingAllocator() : base_(c10::GetCPUAllocator()) {}

  static void free_block(void* data) {
    instance().remove(data);
    instance().base_->raw_deallocate(data);
  }
  void add(void* data, Block block) {
    const std::lock_guard lock(mutex_);
    blocks_[data] = block;
    alive_[block.device] += block.bytes;
  }
  /// Memory that was made while this was off may be given back while it is on.
  void remove(void* data) {
    const std::lock_guard lock(mutex_);
    const auto block = blocks_.find(data);
    if (block == blocks_.end()) return;
    alive_[block->second.device] -= block->second.bytes;
    blocks_.erase(block);
  }

  c10::Allocator* base_;
  std::mutex mutex_;
  std::unordered_map<void*, Block> blocks_;
  std::map<int, int64_t> alive_;  // bytes by device
};
