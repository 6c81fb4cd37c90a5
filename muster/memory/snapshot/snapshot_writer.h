// The dict of torch.cuda.memory._snapshot(): Note [Snapshot files]. Private to the room.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "muster/memory/allocator/events.h"
#include "muster/memory/allocator/refusal.h"
#include "muster/memory/snapshot/pickle_writer.h"

namespace muster::memory {

class SnapshotWriter {
 public:
  explicit SnapshotWriter(PickleWriter::Write write) : pickle_(std::move(write)) {}

  /// Once.
  void write(const std::vector<HeldBlock>& blocks, const std::vector<AllocationEvent>& events);

 private:
  void segment(const HeldBlock& block);
  void event(const AllocationEvent& event);
  void trace_entry(std::string_view action, const AllocationEvent& event);
  void frames(const BlockTag& tag);
  void frame(std::string_view kind, std::string_view name);

  PickleWriter pickle_;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, uint32_t> frames_;  // remembered
};

}  // namespace muster::memory
