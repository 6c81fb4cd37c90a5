// Bytes of tensors by the device that they would be on, where all devices are the CPU.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

/// Puts itself before LibTorch's CPU allocator while it is on. Lives until the process ends.
class CountingAllocator : public c10::Allocator {
 public:
  CountingAllocator() : base_(c10::GetCPUAllocator()) {}

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

  c10::DataPtr allocate(size_t bytes) override {
    auto* block = new Block{this, base_->allocate(bytes), bytes, device_of_thread()};
    add(block->device, static_cast<int64_t>(bytes));
    return {block->data.get(), block, &CountingAllocator::free_block, at::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  struct Block {
    CountingAllocator* counter;
    c10::DataPtr data;
    size_t bytes;
    int device;
  };
  static void free_block(void* context) {
    const std::unique_ptr<Block> block(static_cast<Block*>(context));
    block->counter->add(block->device, -static_cast<int64_t>(block->bytes));
  }
  void add(int device, int64_t bytes) {
    const std::lock_guard lock(mutex_);
    alive_[device] += bytes;
  }

  c10::Allocator* base_;
  std::mutex mutex_;
  std::map<int, int64_t> alive_;
};
