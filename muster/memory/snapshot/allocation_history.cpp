#include "muster/memory/snapshot/allocation_history.h"

#include <algorithm>
#include <atomic>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/memory/allocator/events.h"
#include "muster/memory/snapshot/snapshot_writer.h"

namespace muster::memory {
namespace {

std::atomic<bool> history_lives{false};

constexpr size_t kMostEvents = size_t{1} << 26;

}  // namespace

AllocationHistory::OnlyOne::OnlyOne(const HistoryOptions& options) {
  if (options.level < Level::kTags) {
    throw usage_error({.refused = "a memory::AllocationHistory below Level::kTags",
                       .rule = "its events have tags",
                       .hint = "Level::kTags, or Level::kLayers for the names of layers"});
  }
  if (options.events < 1 || options.events > kMostEvents) {
    throw usage_error({.refused = "HistoryOptions::events",
                       .rule = concat("1 to ", kMostEvents),
                       .value = concat(options.events)});
  }
  if (history_lives.exchange(true)) {
    throw usage_error({.refused = "a second memory::AllocationHistory",
                       .rule = "there is one CPU memory, so there is one at a time",
                       .hint = "end the other one first"});
  }
}

AllocationHistory::OnlyOne::~OnlyOne() { history_lives.store(false); }

AllocationHistory::AllocationHistory(const HistoryOptions& options)
    : only_one_(options), recording_(options.level) {
  cpu_events().begin(options.events);
}

AllocationHistory::~AllocationHistory() { cpu_events().end(); }

SnapshotFile AllocationHistory::write(const std::filesystem::path& path) const {
  // Events first: a block that is born meanwhile is in the list alone, and the viewer takes it for
  // one from before.
  const EventRing::Kept kept = cpu_events().kept();
  std::vector<HeldBlock> blocks;
  block_lists().each([&blocks](Block& block) {
    blocks.push_back({.address = reinterpret_cast<uintptr_t>(block.data()),
                      .bytes = block.bytes,
                      .tag = {.scope = block.scope,
                              .op = block.op,
                              .layer = block.layer,
                              .iteration = block.iteration,
                              .owner = block.owner.load(std::memory_order_relaxed)}});
  });
  std::ranges::sort(blocks, std::ranges::less(), &HeldBlock::address);
  AtomicFile file(path);
  SnapshotWriter writer([&file](std::string_view bytes) { file.write(bytes); });
  writer.write(blocks, kept.events);
  file.commit();
  SnapshotFile written{.blocks = static_cast<int64_t>(blocks.size()),
                       .events = static_cast<int64_t>(kept.events.size()),
                       .forgotten = static_cast<int64_t>(kept.forgotten)};
  for (const HeldBlock& block : blocks) written.bytes += block.bytes;
  return written;
}

}  // namespace muster::memory
