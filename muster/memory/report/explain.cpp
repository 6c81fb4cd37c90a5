#include "muster/memory/report/explain.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "muster/base/text.h"
#include "muster/diagnose/catalogue/out_of_memory_text.h"
#include "muster/memory/allocator/cpu_memory.h"
#include "muster/memory/guard/oom.h"
#include "muster/memory/report/host_bytes.h"
#include "muster/memory/tracker/recent.h"

namespace muster::memory {
namespace {

constexpr size_t kMostHolders = 200;

std::optional<int64_t> whole(const std::optional<double>& bytes) {
  if (!bytes || !(*bytes >= 0) || *bytes > 9e18) return std::nullopt;
  return static_cast<int64_t>(*bytes);
}

void take_from(const NotedRefusal& noted, OomFacts& facts) {
  const Refusal& refusal = noted.refusal;
  facts.at_failure = true;
  facts.was_to_fail = refusal.was_to_fail;
  facts.words = first_line(noted.words);
  facts.asked = refusal.asked;
  facts.live = refusal.live;
  if (refusal.capacity) {
    facts.cap = refusal.capacity;
    facts.cap_kind = refusal.device.is_cpu() ? CapKind::kCapacity : CapKind::kDevice;
  }
  if (refusal.device.is_cpu()) return;  // its rest is the host's
  facts.idle = refusal.idle;
  facts.pending = refusal.pending;
  facts.largest_idle = refusal.largest_idle;
  if (!refusal.capacity) return;
  facts.total = refusal.capacity;
  facts.free = std::max<int64_t>(0, *refusal.capacity - refusal.live - refusal.idle);
}

/// In a container the driver's number of this process is the host's, and LibTorch takes it for
/// another's: it is the smallest of those that hold all that the allocator does.
void take_own_out(int64_t tensors_and_idle, OomFacts& facts) {
  constexpr int64_t kRounding = int64_t{16} << 20;  // GiB with two digits
  auto& all = facts.processes;
  for (auto at = all.rbegin(); at != all.rend(); ++at) {  // smallest first
    if (at->bytes + kRounding < tensors_and_idle) continue;
    facts.outside = std::max<int64_t>(0, at->bytes - tensors_and_idle);
    all.erase(std::next(at).base());
    return;
  }
}

/// What LibTorch's text says; of the moment of the failure as well.
void take_from_text(const diagnose::OutOfMemoryText& text, OomFacts& facts) {
  facts.asked = whole(text.asked);
  facts.total = whole(text.total);
  facts.free = whole(text.free);
  facts.live = whole(text.allocated);
  facts.idle = whole(text.idle);
  facts.cap = facts.total;
  facts.cap_kind = facts.total ? CapKind::kDevice : CapKind::kUnknown;
  const int64_t tensors_and_idle = facts.live.value_or(0) + facts.idle.value_or(0);
  if (const auto own = whole(text.own); own && text.has_own && facts.live)
    facts.outside = std::max<int64_t>(0, *own - tensors_and_idle);
  if (const auto allowed = whole(text.allowed); allowed && facts.free) {
    const int64_t of_cap = std::max<int64_t>(0, *allowed - tensors_and_idle);
    if (of_cap < *facts.free) {  // else the device was full before the share was
      facts.cap = allowed;
      facts.cap_kind = CapKind::kFraction;
      facts.beyond = *facts.free - of_cap;
      facts.free = of_cap;
    }
  }
  if (text.others.empty()) return;
  for (const diagnose::MemoryOfProcess& one : text.others)
    facts.processes.push_back({.pid = one.pid, .bytes = whole(one.bytes).value_or(0)});
  std::ranges::stable_sort(facts.processes, std::ranges::greater(), &OtherProcess::bytes);
  if (!text.has_own) take_own_out(tensors_and_idle, facts);
  facts.others = 0;
  for (const OtherProcess& one : facts.processes) *facts.others += one.bytes;
}

c10::DeviceAllocator* device_allocator_of(c10::Device device) {
  if (device.is_cpu() || !c10::impl::hasDeviceGuardImpl(device.type())) return nullptr;
  auto* const allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
  return allocator != nullptr && allocator->initialized() ? allocator : nullptr;
}

template <class Stats>
int64_t reserved_in_pools(const Stats& stats) {
  int64_t bytes = 0;
  if constexpr (requires { stats.reserved_bytes_by_private_pools; }) {
    for (const auto& [pool, reserved] : stats.reserved_bytes_by_private_pools)
      bytes += reserved[0].current;
  }
  return bytes;
}

/// What the allocator counts now. Where the text has said its own, that stays.
void take_from_allocator(c10::Device device, int64_t allocated_in_pools, OomFacts& facts) {
  c10::DeviceAllocator* const allocator = device_allocator_of(device);
  if (allocator == nullptr) return;
  const auto stats = allocator->getDeviceStats(device.index());
  const int64_t allocated = stats.allocated_bytes[0].current;
  const int64_t reserved = stats.reserved_bytes[0].current;
  if (!facts.live) facts.live = allocated;
  if (!facts.idle) facts.idle = std::max<int64_t>(0, reserved - allocated);
  const int64_t pending = std::max<int64_t>(0, stats.active_bytes[0].current - allocated);
  facts.pending = std::min(pending, *facts.idle);
  const int64_t in_pools = reserved_in_pools(stats) - allocated_in_pools;
  if (in_pools > 0) facts.in_pools = std::min(in_pools, *facts.idle - *facts.pending);
  if (facts.total) return;
  const auto [free, total] = allocator->getMemoryInfo(device.index());
  facts.total = facts.cap = static_cast<int64_t>(total);
  facts.cap_kind = CapKind::kDevice;
  if (!facts.free) facts.free = static_cast<int64_t>(free);
}

struct Owned {
  Owner owner = Owner::kOther;
  std::string layer;
  int64_t bytes = 0;
};

using MemoryByAddress = std::unordered_map<uint64_t, Owned>;

/// The first that claims an address has it.
void claim(const OwnedMemory& one, c10::Device device, MemoryByAddress& memory) {
  if (one.device.type() != device.type() ||
      (!device.is_cpu() && one.device.index() != device.index()))
    return;
  memory.try_emplace(one.address, Owned{one.owner, one.layer, one.bytes});
}

MemoryByAddress owned_memory(const std::vector<OwnedTensor>& all, c10::Device device) {
  MemoryByAddress memory;
  for (const OwnedTensor& tensor : all)
    if (const auto one = memory_of(tensor)) claim(*one, device, memory);
  return memory;
}

/// Blocks by who made them.
class HolderTable {
 public:
  void add(uint32_t scope, uint32_t op, const std::string& layer, Owner owner, int64_t bytes) {
    Holder& holder = holders_[{scope, op, layer, owner}];
    holder.bytes += bytes;
    ++holder.blocks;
  }

  std::vector<Holder> sorted() const {
    std::vector<Holder> all;
    for (const auto& [key, counted] : holders_) {
      Holder holder = counted;
      const auto& [scope, op, layer, owner] = key;
      holder.scope = tag_name(scope);
      holder.op = tag_name(op);
      holder.layer = layer;
      holder.owner = owner;
      all.push_back(std::move(holder));
    }
    std::ranges::stable_sort(all, std::ranges::greater(), &Holder::bytes);
    if (all.size() > kMostHolders) all.resize(kMostHolders);
    return all;
  }

 private:
  std::map<std::tuple<uint32_t, uint32_t, std::string, Owner>, Holder> holders_;
};

/// Every block is known; below Level::kTags only those of a recording before, and what the model holds.
void fill_holders(const std::vector<HeldBlock>& blocks,
                  const MemoryByAddress& owned,
                  Level level,
                  OomFacts& facts) {
  HolderTable table;
  std::map<uint32_t, std::string> layers;
  std::unordered_set<uint64_t> known_memory;
  int64_t seen = 0;
  const auto hold = [&](Owner owner, int64_t bytes) {
    facts.owners[static_cast<size_t>(owner)] += bytes;
    seen += bytes;
  };
  for (const HeldBlock& block : blocks) {
    Owner owner = block.tag.owner;
    auto known = layers.find(block.tag.layer);
    if (known == layers.end())
      known = layers.emplace(block.tag.layer, tag_layer(block.tag.layer)).first;
    const std::string* layer = &known->second;
    if (const auto found = owned.find(block.address); found != owned.end()) {
      owner = found->second.owner;
      if (!found->second.layer.empty()) layer = &found->second.layer;
    } else if (owner == Owner::kGradient && !owned.empty()) {
      facts.of_backward += block.bytes;
    }
    table.add(block.tag.scope, block.tag.op, *layer, owner, block.bytes);
    hold(owner, block.bytes);
    known_memory.insert(block.address);
  }
  if (level < Level::kTags) {
    for (const auto& [address, one] : owned) {
      if (known_memory.contains(address)) continue;
      table.add(0, 0, one.layer, one.owner, one.bytes);
      hold(one.owner, one.bytes);
    }
  }
  facts.holders = table.sorted();
  facts.rest_is_mixed = level < Level::kTags;
  facts.by_owner = !blocks.empty() && (!owned.empty() || level >= Level::kTags);
  facts.owners[static_cast<size_t>(Owner::kOther)] +=
      std::max<int64_t>(0, facts.live.value_or(seen) - seen);
}

/// No block is known, but what the model holds.
void fill_owned(const MemoryByAddress& owned, OomFacts& facts) {
  HolderTable table;
  int64_t seen = 0;
  for (const auto& [address, one] : owned) {
    table.add(0, 0, one.layer, one.owner, one.bytes);
    facts.owners[static_cast<size_t>(one.owner)] += one.bytes;
    seen += one.bytes;
  }
  facts.holders = table.sorted();
  facts.rest_is_mixed = true;
  facts.by_owner = !owned.empty();
  facts.owners[static_cast<size_t>(Owner::kOther)] =
      std::max<int64_t>(0, facts.live.value_or(seen) - seen);
}

void name_processes(const ExplainOptions& options, c10::Device device, OomFacts& facts) {
  if (options.processes == 0) return;
  if (device.is_cpu()) {
    facts.processes = other_host_processes(options.machine.surroundings, options.processes);
    return;
  }
  if (!device.is_cuda()) return;
  const std::vector<OtherProcess> known =
      other_device_processes(options.machine, facts.total, options.processes);
  if (facts.processes.empty()) {
    facts.processes = known;
    if (!facts.others && !known.empty()) {
      facts.others = 0;
      for (const OtherProcess& one : known) *facts.others += one.bytes;
    }
  }
  for (OtherProcess& process : facts.processes) {
    const auto same = std::ranges::find(known, process.pid, &OtherProcess::pid);
    if (same != known.end()) process.command = same->command, process.user = same->user;
  }
  if (facts.processes.size() > options.processes) facts.processes.resize(options.processes);
}

}  // namespace

std::optional<OwnedMemory> memory_of(const OwnedTensor& one) {
  const at::Tensor& tensor = one.tensor;
  if (!tensor.defined() || !tensor.has_storage()) return std::nullopt;
  c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  // Of a storage that has given its memory away (weights in shards) the checked accessor throws.
  const void* const address = storage._mutable_data_ptr_no_checks().get();
  if (address == nullptr || storage.nbytes() == 0) return std::nullopt;
  return OwnedMemory{.device = tensor.device(),
                     .address = reinterpret_cast<uintptr_t>(address),
                     .bytes = static_cast<int64_t>(storage.nbytes()),
                     .owner = one.owner,
                     .layer = one.layer};
}

OomReport explain(const std::exception_ptr& error,
                  c10::Device device,
                  const ExplainOptions& options) {
  if (!device.is_cpu() && !device.has_index()) device.set_index(0);
  OomReport report;
  OomFacts& facts = report.facts;
  facts.device = device.str();
  facts.rank = options.rank;
  const std::optional<OutOfMemory> found = out_of_memory_in(error);
  if (found) facts.words = found->words;
  const std::optional<NotedRefusal> noted = found ? take_noted(device, found->words) : std::nullopt;
  const diagnose::OutOfMemoryText text = diagnose::out_of_memory_text(facts.words);
  if (noted)
    take_from(*noted, facts);
  else
    take_from_text(text, facts);
  MemoryByAddress owned = owned_memory(options.owned, device);
  // Where the bytes are counted now, what is freed is not among them.
  if (noted || text.allocated)
    for (const OwnedMemory& one : options.freed) claim(one, device, owned);
  if (device.is_cpu()) {
    if (!facts.live) facts.live = cpu_counters().current;
    if (!noted && cpu_capacity() > 0) facts.cap = cpu_capacity();
    fill_host(facts,
              noted && noted->host ? *noted->host : read_host_bytes(options.machine.surroundings));
  } else if (!noted) {
    try {
      take_from_allocator(device, whole(text.in_pools).value_or(0), facts);
    } catch (const c10::Error&) {  // behind an error that sticks: the text has said what it has
    }
  }
  if (noted && !noted->blocks.empty())
    fill_holders(noted->blocks, owned, noted->level, facts);
  else
    fill_owned(owned, facts);
  facts.iterations = recent_iterations(device);
  name_processes(options, device, facts);
  report.cause = classify(facts);
  return report;
}

}  // namespace muster::memory
