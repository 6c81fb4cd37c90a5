#include "muster/distributed/meet/choose_backend.h"

#include <algorithm>

#include <ATen/DeviceAccelerator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "muster/base/text.h"
#include "muster/distributed/meet/check_backend.h"
#include "muster/distributed/meet/host.h"

namespace muster::distributed {
namespace {

/// Lines: the host, then "name<tab>reason" each.
std::string offer_text(const RankOffer& offer) {
  std::string text = concat(offer.host_identity, "\n\t", offer.device);
  for (const auto& [name, why] : offer.refusals) text += concat('\n', name, '\t', why);
  return text;
}

RankOffer offer_from(const std::string& text) {
  const std::vector<std::string> lines = split(text, '\n');
  RankOffer offer{.host_identity = lines.at(0), .refusals = {}, .device = {}};
  for (size_t i = 1; i < lines.size(); ++i) {
    const size_t tab = lines[i].find('\t');
    if (tab == 0)
      offer.device = lines[i].substr(1);
    else if (tab != std::string::npos)
      offer.refusals[lines[i].substr(0, tab)] = lines[i].substr(tab + 1);
  }
  return offer;
}

/// Throws the same on all ranks.
void check_one_kind(const std::vector<RankOffer>& ranks) {
  const auto kind = [](const RankOffer& offer) {
    return offer.device.substr(0, offer.device.find(':'));
  };
  for (size_t rank = 1; rank < ranks.size(); ++rank) {
    if (kind(ranks[rank]) == kind(ranks[0])) continue;
    const auto name = [&](const RankOffer& offer) {
      return offer.device.empty() ? std::string("none that it says") : offer.device;
    };
    throw usage_error(
        {.refused = "the ranks' devices",
         .rule = "all ranks of a job compute on one kind of device",
         .value = concat("rank 0 on ", name(ranks[0]), ", rank ", rank, " on ", name(ranks[rank])),
         .hint = "name the kind: --device cpu"});
  }
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

BackendUnfit::BackendUnfit(const std::string& why)
    : Error(ErrorKind::kEnvironment, {.refused = why}) {}

std::vector<const BackendEntry*> by_preference() {
  std::vector<const BackendEntry*> entries;
  for (const BackendEntry* entry : backends()) {
    if (entry->preference >= 0) entries.push_back(entry);
  }
  std::stable_sort(entries.begin(), entries.end(), [](const auto* a, const auto* b) {
    return a->preference > b->preference;
  });
  return entries;
}

std::vector<RankOffer> exchange_offers(const BackendRequest& request,
                                       const std::vector<const BackendEntry*>& entries) {
  RankOffer mine{.host_identity = request.host_identity, .refusals = {}, .device = request.device};
  for (const BackendEntry* entry : entries) {
    std::string why = entry->available();
    if (why.empty() && entry->refuses != nullptr) why = entry->refuses(request);
    if (!why.empty()) mine.refusals[std::string(entry->name)] = one_line(why);
  }
  std::vector<RankOffer> offers;
  for (const std::string& text :
       exchange_texts(*request.store, "offers", request.rank, request.world_size, offer_text(mine)))
    offers.push_back(offer_from(text));
  check_one_kind(offers);
  return offers;
}

bool moves(const BackendEntry& entry, at::DeviceType kind) {
  if (kind == at::kCPU) return entry.moves_cpu;
  return kind == at::kCUDA ? entry.moves_cuda : entry.moves_any_device;
}

std::vector<at::DeviceType> kinds_of(const BackendEntry& entry) {
  std::vector<at::DeviceType> kinds;
  const auto add = [&](at::DeviceType kind) {
    if (moves(entry, kind)) kinds.push_back(kind);
  };
  add(at::kCPU);
  add(at::kCUDA);
  for (int i = 0; i < at::COMPILE_TIME_MAX_DEVICE_TYPES; ++i) {
    const auto kind = static_cast<at::DeviceType>(i);
    if (kind != at::kCUDA && at::isAccelerator(kind) && c10::impl::hasDeviceGuardImpl(kind))
      add(kind);
  }
  return kinds;
}

std::vector<Member> named_members(const std::string& text) {
  std::vector<Member> members;
  if (text.find(':') == std::string::npos) {
    const BackendEntry& entry = backends().at(text);
    for (const at::DeviceType kind : kinds_of(entry)) members.push_back({kind, &entry});
    return members;
  }
  for (const std::string& part : split(text, ',')) {
    const size_t colon = part.find(':');
    const std::string device = part.substr(0, colon);
    const auto refuse_backend = [&](const std::string& rule) {
      throw usage_error({.refused = "backend " + text,
                         .rule = rule,
                         .value = part,
                         .hint =
                             "one name, or cpu:NAME,cuda:NAME with a name or auto for both; see "
                             "`muster list backends`"});
    };
    if (colon == std::string::npos || (device != "cpu" && device != "cuda"))
      refuse_backend("each part is cpu:NAME or cuda:NAME");
    const std::string name = part.substr(colon + 1);
    const Member member{device == "cpu" ? at::kCPU : at::kCUDA,
                        name == "auto" ? nullptr : &backends().at(name)};
    if (member.entry != nullptr && !moves(*member.entry, member.kind))
      refuse_backend(concat(member.entry->name, " does not move ", device, " tensors"));
    for (const Member& other : members)
      if (other.kind == member.kind)
        refuse_backend(device + " is named once");
      else if ((other.entry == nullptr) != (member.entry == nullptr))
        refuse_backend("auto is for all kinds that are named, or for none");
    members.push_back(member);
  }
  return members;
}

const BackendEntry* choose(const std::vector<const BackendEntry*>& entries,
                           at::DeviceType kind,
                           const std::vector<RankOffer>& ranks,
                           const std::map<const BackendEntry*, std::string>& unfit,
                           std::string& reason) {
  for (const BackendEntry* entry : entries) {
    if (!moves(*entry, kind)) continue;
    const auto known = unfit.find(entry);
    const std::string why = known == unfit.end() ? why_not(*entry, ranks) : known->second;
    if (why.empty()) return entry;
    reason += concat("; not ", entry->name, ": ", why);
  }
  return nullptr;
}

bool is_thread_alone(const std::string& asked, int64_t processes) {
  const BackendEntry* named = backends().find(asked);
  const bool is_for_threads = named != nullptr && named->for_threads_only;
  return processes == 1 && (asked == "auto" || asked == "cpu:auto" || is_for_threads);
}

Error unusable(const BackendEntry& entry, const std::string& why) {
  return environment_error({.refused = concat("backend ", entry.name, " cannot be used here"),
                            .rule = why,
                            .hint = "see `muster list backends`"});
}

void check_backend(const std::string& asked, int64_t processes) {
  if (asked == "auto" || is_thread_alone(asked, processes)) return;
  for (const Member& member : named_members(asked)) {
    if (member.entry == nullptr) continue;
    if (member.entry->for_threads_only) member.entry->make({});  // says why not
    if (const std::string why = member.entry->available(); !why.empty())
      throw unusable(*member.entry, why);
  }
}

std::string backend_outlook(const std::string& asked, at::DeviceType kind) {
  if (kind == at::kCPU) return asked;
  const std::string by_host =
      concat("tensors of ", c10::DeviceTypeName(kind, true), " go by host memory");
  if (asked != "auto") {
    const std::vector<Member> members = named_members(asked);
    const bool is_moved = std::any_of(
        members.begin(), members.end(), [&](const Member& own) { return own.kind == kind; });
    return is_moved ? asked : concat(asked, "; ", by_host);
  }
  std::string why;
  for (const BackendEntry* entry : by_preference()) {
    if (!moves(*entry, kind)) continue;
    const std::string reason = entry->available();
    if (reason.empty()) return concat("auto: ", entry->name, " where each rank has its own device");
    why += concat(" (not ", entry->name, ": ", reason, ")");
  }
  return concat("auto; ", by_host, why);
}

std::string why_refused(const BackendEntry& entry, const std::vector<RankOffer>& ranks) {
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto found = ranks[rank].refusals.find(std::string(entry.name));
    if (found == ranks[rank].refusals.end()) continue;
    const bool all = std::all_of(ranks.begin(), ranks.end(), [&](const RankOffer& other) {
      return other.refusals.count(std::string(entry.name)) > 0;
    });
    return all ? found->second : concat("rank ", rank, ": ", found->second);
  }
  return "";
}

std::string why_not(const BackendEntry& entry, const std::vector<RankOffer>& ranks) {
  const std::string refused = why_refused(entry, ranks);
  return refused.empty() && entry.unsuitable != nullptr ? entry.unsuitable(ranks) : refused;
}

}  // namespace muster::distributed
