// The group of this process, from what its launcher set.
#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/diagnose/record/failure_note.h"
#include "muster/distributed/group_parts.h"
#include "muster/distributed/meet/address.h"
#include "muster/distributed/meet/check_backend.h"
#include "muster/distributed/meet/choose_backend.h"
#include "muster/distributed/meet/host.h"
#include "muster/distributed/meet/store.h"
#include "muster/distributed/meet/timeout.h"
#include "muster/tensor/vector_math.h"

namespace muster::distributed {
namespace {

std::string name_of(at::DeviceType kind) { return c10::DeviceTypeName(kind, true); }

/// The backends that were asked for. A rank that cannot use one says so to all: they end with its
/// reason, instead of waiting for it.
ProcessGroup make_named_group(const std::vector<Member>& members,
                              const BackendRequest& request,
                              const MonitorOptions& monitor,
                              int server_rank,
                              const std::optional<at::Device>& device) {
  std::vector<const BackendEntry*> entries;
  entries.reserve(members.size());
  for (const Member& member : members) entries.push_back(member.entry);
  const std::vector<RankOffer> ranks = exchange_offers(request, entries);
  for (const BackendEntry* entry : entries) {
    // Of the CPU's backends each says better by itself which ranks it does not suit.
    const std::string why = entry->moves_cpu ? why_refused(*entry, ranks) : why_not(*entry, ranks);
    if (!why.empty()) throw unusable(*entry, why);
  }
  GroupParts parts(request, monitor, server_rank);
  const bool one =
      std::ranges::all_of(entries, [&](const BackendEntry* entry) { return entry == entries[0]; });
  std::vector<at::DeviceType> kinds;
  for (const Member& member : members) {
    kinds.push_back(member.kind);
    if (!one) parts.add(*member.entry, {member.kind}, name_of(member.kind));
  }
  if (one) parts.add(*entries[0], kinds);
  if (device && std::ranges::find(kinds, device->type()) == kinds.end()) {
    const std::string name = name_of(device->type());
    const auto of_cpu = std::ranges::find(kinds, at::kCPU);
    if (of_cpu == kinds.end()) {
      throw usage_error({.refused = concat("backend ", entries[0]->name),
                         .rule = concat("it does not move tensors of ", name),
                         .hint = "leave --backend away"});
    }
    parts.stage(*entries[static_cast<size_t>(of_cpu - kinds.begin())], device->type(), name);
  }
  return parts.group("asked for");
}

/// What `auto` is to find.
struct Wanted {
  bool cpu = true;      ///< a backend for CPU tensors
  bool device = false;  ///< one for a device's
  bool device_if_any = true;
  at::DeviceType kind = at::kCUDA;  ///< of the device
  bool by_host = false;             ///< its tensors may go by host memory
};

Wanted wanted_by(const std::vector<Member>& members, const std::optional<at::Device>& device) {
  Wanted wanted;
  if (!members.empty()) {
    wanted = {.cpu = false, .device_if_any = false};
    for (const Member& member : members)
      (member.kind == at::kCPU ? wanted.cpu : wanted.device) = true;
  } else if (device) {
    wanted.device_if_any = !device->is_cpu();
  }
  if (!device || device->is_cpu() || wanted.device) return wanted;
  wanted.kind = device->type();
  wanted.by_host = true;
  return wanted;
}

[[noreturn]] void refuse_all(const std::string& what, const std::string& why) {
  throw environment_error(
      {.refused = concat("no process-group backend for ", what, " is available"),
       .rule = why,
       .hint = "see `muster list backends`"});
}

/// For each kind of device the first choice that all ranks can make.
ProcessGroup make_auto_group(const Wanted& wanted,
                             const BackendRequest& request,
                             const MonitorOptions& monitor,
                             int server_rank) {
  const std::vector<const BackendEntry*> entries = by_preference();
  const std::vector<RankOffer> ranks = exchange_offers(request, entries);
  std::map<const BackendEntry*, std::string> unfit;
  const bool looks_for_device = wanted.device || wanted.device_if_any;
  std::string why_device;
  const BackendEntry* device =
      looks_for_device ? choose(entries, wanted.kind, ranks, unfit, why_device) : nullptr;
  if (wanted.device && device == nullptr) refuse_all("cuda tensors", "auto" + why_device);
  GroupParts parts(request, monitor, server_rank);
  if (!wanted.cpu) {
    parts.add(*device, {at::kCUDA});
    return parts.group("auto" + why_device);
  }
  const std::string without_device = "auto" + (device == nullptr ? why_device : "");
  std::string reason = without_device;
  while (const BackendEntry* entry = choose(entries, at::kCPU, ranks, unfit, reason)) {
    try {
      parts.add(*entry, {at::kCPU}, device != nullptr ? "cpu" : "");
      if (device == nullptr && wanted.by_host)
        parts.stage(*entry, wanted.kind, name_of(wanted.kind));
      if (device == nullptr) return parts.group(reason);
      parts.add(*device, {wanted.kind});
      return parts.group(concat("auto", why_device, "; for CPU tensors ", entry->name));
    } catch (const BackendUnfit& why) {
      unfit[entry] = why.text().refused;
      reason = without_device;
    }
  }
  refuse_all("CPU tensors", reason);
}

/// The number of this rank's device.
int index_on_host(const std::optional<at::Device>& device, const RankEnv& place) {
  return device && device->has_index() ? device->index() : static_cast<int>(place.local_rank);
}

}  // namespace

ProcessGroup init_process_group(const GroupOptions& options, const std::optional<RankEnv>& env) {
  tensor::initialize_vector_math();
  const auto timeout = bounded_timeout(options.timeout, "GroupOptions::timeout");
  if (env) diagnose::note_uncaught_exceptions();
  const int64_t world_size = env ? env->world_size : 1;
  const std::string& backend = options.backend;
  if (is_thread_alone(backend, world_size)) return ThreadWorld(1, timeout).group(0);
  if (world_size > std::numeric_limits<int>::max())
    throw usage_error(
        {.refused = concat("world size ", world_size), .rule = "c10d counts ranks in 31 bits"});
  const bool named = options.backend != "auto";
  const std::vector<Member> members =
      named ? named_members(options.backend) : std::vector<Member>();
  for (const Member& member : members)
    if (member.entry != nullptr && member.entry->for_threads_only)
      member.entry->make({});  // says why not, and waits for nobody
  const RankEnv place = env.value_or(RankEnv{});
  // Who was started alone talks to nobody: several such programs may run at once.
  const c10::intrusive_ptr<c10d::Store> store =
      env ? connect_store(place,
                          timeout,
                          {.program = program_name(options.program),
                           .backend = options.backend,
                           .waiting = {.say = options.waiting}})
          : c10::intrusive_ptr<c10d::Store>(c10::make_intrusive<c10d::HashStore>());
  const BackendRequest request{.store = store,
                               .rank = static_cast<int>(place.rank),
                               .world_size = static_cast<int>(place.world_size),
                               .local_rank = index_on_host(options.device, place),
                               .timeout = timeout,
                               .host = address_towards(place.master_addr),
                               .host_identity = host_identity(),
                               .device = options.device ? options.device->str() : ""};
  const MonitorOptions monitor = with_environment(options.monitor);
  const int server_rank = place.use_agent_store ? -1 : 0;
  const bool finds = !named || members[0].entry == nullptr;
  if (finds)
    return make_auto_group(wanted_by(members, options.device), request, monitor, server_rank);
  return make_named_group(members, request, monitor, server_rank, options.device);
}

}  // namespace muster::distributed
