#include <algorithm>
#include <string>

#include "muster/base/json.h"
#include "muster/memory/report/report.h"

namespace muster::memory {
namespace {

void put(Json& json, const char* name, const std::optional<int64_t>& bytes) {
  if (bytes) json[name] = *bytes;
}

std::string name_of_owner(Owner owner) {
  std::string name = owner_text(owner);
  std::ranges::replace(name, ' ', '_');
  return name;
}

Json holder_json(const Holder& holder) {
  Json json{
      {"bytes", holder.bytes}, {"blocks", holder.blocks}, {"owner", name_of_owner(holder.owner)}};
  if (!holder.scope.empty()) json["scope"] = holder.scope;
  if (!holder.op.empty()) json["operator"] = holder.op;
  if (!holder.layer.empty()) json["layer"] = holder.layer;
  return json;
}

std::string_view cap_name(CapKind kind) {
  constexpr std::array<std::string_view, 6> kNames{
      "unknown", "device", "fraction", "capacity", "control-group", "addresses"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace

Json json_of(const OomReport& report) {
  const OomFacts& facts = report.facts;
  Json json{{"device", facts.device}};
  if (facts.rank >= 0) json["rank"] = facts.rank;
  json["cause"] = {{"class", class_name(report.cause.kind)},
                   {"because", report.cause.because},
                   {"action", action_name(report.cause.action)},
                   {"do", report.cause.todo}};
  json["error"] = facts.words;
  json["at_failure"] = facts.at_failure;
  Json bytes = Json::object();
  put(bytes, "asked", facts.asked);
  put(bytes, "free", facts.free);
  put(bytes, "cap", facts.cap);
  put(bytes, "total", facts.total);
  put(bytes, "beyond_cap", facts.beyond);
  put(bytes, "tensors", facts.live);
  put(bytes, "idle", facts.idle);
  put(bytes, "pending", facts.pending);
  put(bytes, "in_pools", facts.in_pools);
  put(bytes, "largest_idle", facts.largest_idle);
  put(bytes, "outside", facts.outside);
  put(bytes, "other_processes", facts.others);
  json["bytes"] = std::move(bytes);
  json["cap"] = cap_name(facts.cap_kind);
  if (const auto share = facts.fragmentation()) json["fragmentation"] = *share;
  if (facts.by_owner) {
    Json owners = Json::object();
    for (size_t i = 0; i < kOwners; ++i)
      owners[name_of_owner(static_cast<Owner>(i))] = facts.owners[i];
    json["owners"] = std::move(owners);
  }
  json["holders"] = Json::array();
  for (const Holder& holder : facts.holders) json["holders"].push_back(holder_json(holder));
  json["processes"] = Json::array();
  for (const OtherProcess& process : facts.processes) {
    json["processes"].push_back({{"pid", process.pid},
                                 {"command", process.command},
                                 {"user", process.user},
                                 {"bytes", process.bytes}});
  }
  json["iterations"] = Json::array();
  for (const IterationEnd& end : facts.iterations) {
    json["iterations"].push_back({{"iteration", end.iteration},
                                  {"end_bytes", end.end_bytes},
                                  {"peak_bytes", end.peak_bytes}});
  }
  return json;
}

}  // namespace muster::memory
