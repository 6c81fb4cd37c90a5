#include "muster/memory/allocator/names.h"

#include <array>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <unordered_map>

#include "muster/memory/allocator/block.h"

namespace muster::memory {
namespace {

/// Never freed: blocks that outlive main are still told by name. Strings do not move.
struct NameTable {
  std::mutex mutex;
  std::deque<std::string> names{""};
  std::unordered_map<std::string_view, uint32_t> ids{{"", 0}};
};

NameTable& name_table() {
  static auto* const table = new NameTable;
  return *table;
}

struct Named {
  uint32_t id = 0;
  const std::string* name = nullptr;
};

NameTable& layer_table() {
  static auto* const table = new NameTable;
  return *table;
}

Named intern(NameTable& table, std::string_view name, size_t most) {
  const std::lock_guard lock(table.mutex);
  if (table.names.size() + 1 >= most && !table.ids.contains(name)) name = kManyNames;
  auto found = table.ids.find(name);
  if (found == table.ids.end()) {
    const std::string& kept = table.names.emplace_back(name);
    found = table.ids.emplace(kept, static_cast<uint32_t>(table.names.size() - 1)).first;
  }
  return {found->second, &table.names[found->second]};
}

std::string name_in(NameTable& table, uint32_t id) {
  const std::lock_guard lock(table.mutex);
  return id < table.names.size() ? table.names[id] : std::string();
}

}  // namespace

std::string owner_text(Owner owner) {
  constexpr std::array<std::string_view, kOwners> kTexts{
      "other", "activation", "gradient", "parameter", "buffer", "optimizer state", "input"};
  return std::string(kTexts[static_cast<size_t>(owner)]);
}

uint32_t name_id(std::string_view name) { return intern(name_table(), name, kMostNames).id; }

std::string name_of(uint32_t id) { return name_in(name_table(), id); }

uint32_t layer_id(std::string_view name) { return intern(layer_table(), name, kMostLayers).id; }

std::string layer_of(uint32_t id) { return name_in(layer_table(), id); }

uint32_t layer_count() {
  const std::lock_guard lock(layer_table().mutex);
  return static_cast<uint32_t>(layer_table().names.size());
}

uint32_t operator_id(const char* name) {
  constexpr size_t kSlots = 512;
  // By content, not by address: names of scopes lie in the frame of whoever opened them.
  static thread_local std::array<Named, kSlots> known{};
  const std::string_view text(name);
  Named& slot = known[std::hash<std::string_view>{}(text) % kSlots];
  if (slot.name == nullptr || *slot.name != text) slot = intern(name_table(), text, kMostNames);
  return slot.id;
}

}  // namespace muster::memory
