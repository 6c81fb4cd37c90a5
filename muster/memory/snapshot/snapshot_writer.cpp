#include "muster/memory/snapshot/snapshot_writer.h"

#include <algorithm>
#include <string>

#include "muster/base/text.h"

namespace muster::memory {
namespace {

constexpr int64_t kLargeBytes = int64_t{1} << 20;  // above it CUDA's allocator says "large"

std::string category_of(Owner owner) {
  return owner == Owner::kOther ? "unknown" : owner_text(owner);
}

}  // namespace

void SnapshotWriter::frame(std::string_view kind, std::string_view name) {
  pickle_.begin_dict();
  pickle_.entry("name", name);
  pickle_.entry("filename", kind);
  pickle_.entry("line", 0);
  pickle_.end_dict();
}

void SnapshotWriter::frames(const BlockTag& tag) {
  const std::tuple key(tag.scope, tag.op, tag.layer);
  if (const auto known = frames_.find(key); known != frames_.end()) {
    pickle_.again(known->second);
    return;
  }
  const std::string op = tag_name(tag.op), layer = tag_layer(tag.layer);
  std::vector<std::string> scopes = split(tag_name(tag.scope), '/');
  std::ranges::reverse(scopes);
  pickle_.begin_list();
  if (!op.empty()) frame("operator", op);
  if (!layer.empty()) frame("layer", layer);
  for (const std::string& scope : scopes)
    if (!scope.empty()) frame("scope", scope);
  pickle_.end_list();
  frames_.emplace(key, pickle_.remember());
}

void SnapshotWriter::segment(const HeldBlock& block) {
  const auto address = static_cast<int64_t>(block.address);
  pickle_.begin_dict();
  pickle_.entry("device", 0);
  pickle_.entry("address", address);
  for (const char* name : {"total_size", "allocated_size", "active_size", "requested_size"})
    pickle_.entry(name, block.bytes);
  pickle_.entry("stream", 0);
  pickle_.entry("segment_type", block.bytes > kLargeBytes ? "large" : "small");
  pickle_.key("frames");
  frames(block.tag);
  pickle_.key("blocks");
  pickle_.begin_list();
  pickle_.begin_dict();
  pickle_.entry("address", address);
  pickle_.entry("size", block.bytes);
  pickle_.entry("requested_size", block.bytes);
  pickle_.entry("state", "active_allocated");
  pickle_.entry("category", category_of(block.tag.owner));
  pickle_.entry("user_metadata", concat("iteration ", block.tag.iteration));
  pickle_.key("frames");
  frames(block.tag);
  pickle_.end_dict();
  pickle_.end_list();
  pickle_.end_dict();
}

void SnapshotWriter::trace_entry(std::string_view action, const AllocationEvent& event) {
  pickle_.begin_dict();
  pickle_.entry("action", action);
  pickle_.entry(action == "oom" ? "device_free" : "addr", static_cast<int64_t>(event.address));
  pickle_.entry("size", event.bytes);
  pickle_.entry("stream", 0);
  pickle_.entry("time_us", event.unix_us);
  pickle_.entry("category", category_of(event.tag.owner));
  pickle_.entry("user_metadata",
                concat("iteration ", event.tag.iteration, ", thread ", event.thread));
  pickle_.key("frames");
  frames(event.tag);
  pickle_.end_dict();
}

void SnapshotWriter::event(const AllocationEvent& event) {
  switch (event.kind) {
    case AllocationEvent::Kind::kAllocated:  // each block is a segment of its own
      trace_entry("segment_alloc", event);
      trace_entry("alloc", event);
      break;
    case AllocationEvent::Kind::kFreed:  // in this order the viewer makes one of the first two
      trace_entry("free_requested", event);
      trace_entry("free_completed", event);
      trace_entry("segment_free", event);
      break;
    case AllocationEvent::Kind::kRefused:
      trace_entry("oom", event);
      break;
  }
}

void SnapshotWriter::write(const std::vector<HeldBlock>& blocks,
                           const std::vector<AllocationEvent>& events) {
  pickle_.begin_dict();
  pickle_.key("segments");
  pickle_.begin_list();
  for (const HeldBlock& block : blocks) segment(block);
  pickle_.end_list();
  pickle_.key("device_traces");
  pickle_.begin_list();
  pickle_.begin_list();
  for (const AllocationEvent& one : events) event(one);
  // As CUDA's traces end; and there is always one of category "unknown".
  AllocationEvent last;
  if (!events.empty()) last.unix_us = events.back().unix_us;
  trace_entry("snapshot", last);
  pickle_.end_list();
  pickle_.end_list();
  pickle_.key("allocator_settings");
  pickle_.begin_dict();
  pickle_.end_dict();
  pickle_.end_dict();
  pickle_.end();
}

}  // namespace muster::memory
