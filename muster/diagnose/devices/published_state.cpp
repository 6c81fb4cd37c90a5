#include "muster/diagnose/devices/published_state.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

namespace muster::diagnose {
namespace {

constexpr std::string_view kStatusMagic = "muster-status 1 ";
constexpr size_t kStatusHead = kStatusMagic.size() + 16 + 1 + 8 + 1;

/// FNV-1a, 64 bits. Source: Fowler, Noll, Vo; draft-eastlake-fnv.
uint64_t sum_of(std::string_view bytes) {
  uint64_t sum = 0xcbf29ce484222325;
  for (const char c : bytes) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return sum;
}

[[noreturn]] void refuse_status(std::string_view where, std::string_view what) {
  throw usage_error({.refused = concat(where, ": ", what),
                     .rule = "a status file is what a process of this version of Muster writes"});
}

const Json& status_value(const Json& json, const char* key, std::string_view where) {
  const auto found = json.find(key);
  if (!json.is_object() || found == json.end()) refuse_status(where, concat("no ", key));
  return *found;
}

uint64_t status_count(const Json& json, const char* key, std::string_view where) {
  const Json& value = status_value(json, key, where);
  if (!value.is_number_unsigned()) refuse_status(where, concat(key, " is not a count"));
  return value.get<uint64_t>();
}

int64_t status_whole(const Json& json, const char* key, std::string_view where) {
  const Json& value = status_value(json, key, where);
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() || value.get<uint64_t>() <= uint64_t{INT64_MAX});
  if (!fits) refuse_status(where, concat(key, " is not a whole number"));
  return value.get<int64_t>();
}

std::string status_word(const Json& json, const char* key, std::string_view where) {
  const Json& value = status_value(json, key, where);
  if (!value.is_string()) refuse_status(where, concat(key, " is not text"));
  auto text = value.get<std::string>();
  if (text.size() > kMaxPublishedText) refuse_status(where, concat(key, " is too long"));
  return text;
}

/// At most so many bytes, not in the middle of a letter.
std::string cut_text(std::string text) {
  if (text.size() <= kMaxPublishedText) return text;
  size_t end = kMaxPublishedText;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

/// Bytes that are no UTF-8 become U+FFFD, which has three: so they are replaced before it is cut.
std::string written_text(const std::string& text) {
  return cut_text(Json::parse(json_text(Json(text))).get<std::string>());
}

Json device_json(const PublishedDevice& device) {
  return {{"device", written_text(device.device)},
          {"name", written_text(device.name)},
          {"allocated_bytes", device.allocated_bytes},
          {"reserved_bytes", device.reserved_bytes},
          {"peak_allocated_bytes", device.peak_allocated_bytes},
          {"peak_reserved_bytes", device.peak_reserved_bytes},
          {"retries", device.retries},
          {"out_of_memory", device.out_of_memory}};
}

PublishedDevice device_of(const Json& json, std::string_view where) {
  return {.device = status_word(json, "device", where),
          .name = status_word(json, "name", where),
          .allocated_bytes = status_count(json, "allocated_bytes", where),
          .reserved_bytes = status_count(json, "reserved_bytes", where),
          .peak_allocated_bytes = status_count(json, "peak_allocated_bytes", where),
          .peak_reserved_bytes = status_count(json, "peak_reserved_bytes", where),
          .retries = status_count(json, "retries", where),
          .out_of_memory = status_count(json, "out_of_memory", where)};
}

/// The body behind a head that is in order.
std::string_view body_of(std::string_view bytes, std::string_view where) {
  if (!bytes.starts_with(kStatusMagic) || bytes.size() < kStatusHead ||
      bytes[kStatusHead - 1] != '\n' || bytes[kStatusMagic.size() + 16] != ' ')
    refuse_status(where, "its first line is another");
  uint64_t sum = 0, size = 0;
  const char* at = bytes.data() + kStatusMagic.size();
  const bool is_sum = std::from_chars(at, at + 16, sum, 16).ptr == at + 16;
  const bool is_size = std::from_chars(at + 17, at + 25, size).ptr == at + 25;
  if (!is_sum || !is_size) refuse_status(where, "its first line is another");
  if (size > bytes.size() - kStatusHead) refuse_status(where, "it is cut off");
  const std::string_view body = bytes.substr(kStatusHead, size);
  if (sum_of(body) != sum) refuse_status(where, "its sum is another");
  return body;
}

}  // namespace

std::string status_file_of(std::string_view body) {
  char head[kStatusHead + 1];
  std::snprintf(head,
                sizeof head,
                "%s%016llx %08zu\n",
                std::string(kStatusMagic).c_str(),
                static_cast<unsigned long long>(sum_of(body)),
                body.size());
  return head + std::string(body);
}

std::string published_text(const PublishedState& state) {
  Json devices = Json::array();
  for (size_t i = 0; i < std::min(state.devices.size(), kMaxPublishedDevices); ++i)
    devices.push_back(device_json(state.devices[i]));
  const Json json{
      {"pid", state.process.pid},
      {"started", state.process.started},
      {"host", written_text(state.process.host)},
      {"hostname", written_text(state.process.hostname)},
      {"program", written_text(state.program)},
      {"doing", written_text(state.doing)},
      {"rank", state.rank},
      {"world_size", state.world_size},
      {"updated_unix_s", std::isfinite(state.updated_unix_s) ? state.updated_unix_s : 0},
      {"devices", std::move(devices)}};
  return status_file_of(json_text(json));
}

PublishedState parse_published(std::string_view bytes, std::string_view where) {
  const Json json = parse_json(body_of(bytes, where), where);
  PublishedState state{.program = status_word(json, "program", where),
                       .doing = status_word(json, "doing", where),
                       .rank = status_whole(json, "rank", where),
                       .world_size = status_whole(json, "world_size", where)};
  state.process = {.host = status_word(json, "host", where),
                   .pid = status_whole(json, "pid", where),
                   .started = status_count(json, "started", where),
                   .hostname = status_word(json, "hostname", where)};
  const Json& updated = status_value(json, "updated_unix_s", where);
  if (!updated.is_number()) refuse_status(where, "updated_unix_s is not a number");
  state.updated_unix_s = updated.get<double>();
  if (!std::isfinite(state.updated_unix_s)) refuse_status(where, "updated_unix_s is not finite");
  const Json& devices = status_value(json, "devices", where);
  if (!devices.is_array() || devices.size() > kMaxPublishedDevices)
    refuse_status(where, "devices is not a list of a few");
  for (const Json& device : devices) state.devices.push_back(device_of(device, where));
  return state;
}

std::filesystem::path status_folder(const EnvLookup& environment) {
  const auto named = environment("MUSTER_STATUS_DIR");
  if (named && !named->empty()) return *named;
  return concat("/dev/shm/muster-", ::getuid());
}

}  // namespace muster::diagnose
