// The 64 bytes before the data of each CPU block, and the lists of live blocks.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

namespace muster::memory {

/// Whose bytes they are. Blocks are born as kOther, kActivation (an operator that would build a
/// graph made them) or kGradient (a node of a backward made them); the others are marked.
enum class Owner : uint8_t {
  kOther,
  kActivation,
  kGradient,
  kParameter,
  kBuffer,
  kOptimizerState,
  kInput,
};
inline constexpr size_t kOwners = 7;

/// "parameter", "optimizer state".
std::string owner_text(Owner owner);

/// What is remembered of a block. It stands before the data, which starts at a multiple of 64.
struct alignas(64) Block {
  static constexpr uint8_t kCounted = 1, kListed = 2, kGradMode = 4, kBackward = 8;

  Block* before = nullptr;  // in the list of its shard
  Block* after = nullptr;
  int64_t bytes = 0;  // as they were asked for
  uint32_t scope = 0, op = 0, layer = 0;
  uint32_t iteration = 0;
  uint32_t last_op = 0;  // the last operator that took it, where inputs are looked at
  uint16_t thread = 0;
  std::atomic<Owner> owner{Owner::kOther};
  uint8_t flags = 0;
  uint64_t mark = 0;  // seal(data): the block is ours

  void* data() { return this + 1; }
  static Block* of(void* data) { return static_cast<Block*>(data) - 1; }
  static uint64_t seal(const void* data) {
    return reinterpret_cast<uintptr_t>(data) ^ 0x6d75737465725f6dULL;
  }
};
static_assert(sizeof(Block) == 64);

/// Live blocks that have tags, in lists by thread so that threads seldom wait for each other.
class BlockLists {
 public:
  void add(Block& block) {
    Shard& shard = shard_of(block);
    const std::lock_guard lock(shard.mutex);
    block.after = shard.first;
    if (shard.first != nullptr) shard.first->before = &block;
    shard.first = &block;
  }
  void remove(Block& block) {
    Shard& shard = shard_of(block);
    const std::lock_guard lock(shard.mutex);
    if (block.before != nullptr) block.before->after = block.after;
    if (block.after != nullptr) block.after->before = block.before;
    if (shard.first == &block) shard.first = block.after;
  }
  /// Under the lock of a list: no allocation of tensors inside.
  template <class Visit>
  void each(const Visit& visit) {
    for (Shard& shard : shards_) {
      const std::lock_guard lock(shard.mutex);
      for (Block* block = shard.first; block != nullptr; block = block->after) visit(*block);
    }
  }

 private:
  struct alignas(64) Shard {
    std::mutex mutex;
    Block* first = nullptr;
  };
  static constexpr size_t kShards = 16;
  Shard& shard_of(const Block& block) { return shards_[block.thread % kShards]; }

  std::array<Shard, kShards> shards_;
};

}  // namespace muster::memory
