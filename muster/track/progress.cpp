#include "muster/track/progress.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "muster/base/json.h"

namespace muster::track {
namespace {

// Longer lines are not ours: a progress line has a dozen short fields.
constexpr size_t kMaxLineBytes = 4096;
// Metrics that are members of the line itself.
constexpr std::array<const char*, 2> kOwnMembers = {"loss", "accuracy"};

bool is_own_member(std::string_view name) {
  return std::find(kOwnMembers.begin(), kOwnMembers.end(), name) != kOwnMembers.end();
}

void put_finite(Json& json, const char* key, const std::optional<double>& value) {
  if (value && std::isfinite(*value)) json[key] = *value;
}

/// A count that is missing keeps its default; one that is not a whole number of at least 0 spoils
/// the line.
bool read_member(const Json& json, const char* key, int64_t& value) {
  const auto found = json.find(key);
  if (found == json.end()) return true;
  if (!found->is_number_integer()) return false;
  if (found->is_number_unsigned() && found->get<uint64_t>() > uint64_t{INT64_MAX}) return false;
  value = found->get<int64_t>();
  return value >= 0;
}

bool read_member(const Json& json, const char* key, std::optional<double>& value) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return true;
  if (!found->is_number()) return false;
  value = found->get<double>();
  return std::isfinite(*value);
}

/// The metrics of the line. False if one is no number.
bool take_metrics(const Json& json, std::vector<std::pair<std::string, double>>& metrics) {
  for (const char* name : kOwnMembers) {
    std::optional<double> value;
    if (!read_member(json, name, value)) return false;
    if (value) metrics.emplace_back(name, *value);
  }
  const auto others = json.find("metrics");
  if (others == json.end()) return true;
  if (!others->is_object()) return false;
  for (const auto& [name, number] : others->items()) {
    if (is_own_member(name)) continue;
    if (!number.is_number() || !std::isfinite(number.get<double>())) return false;
    metrics.emplace_back(name, number.get<double>());
  }
  return true;
}

}  // namespace

const double* ProgressEvent::find(std::string_view name) const {
  for (const auto& [own, value] : metrics) {
    if (own == name) return &value;
  }
  return nullptr;
}

std::string to_json_line(const ProgressEvent& event) {
  Json json = {{"phase", event.phase},
               {"epoch", event.epoch},
               {"epochs", event.epochs},
               {"step", event.step},
               {"steps", event.steps}};
  for (const char* name : kOwnMembers) {
    if (const double* value = event.find(name)) put_finite(json, name, *value);
  }
  for (const auto& [name, value] : event.metrics) {
    if (!is_own_member(name) && std::isfinite(value)) json["metrics"][name] = value;
  }
  put_finite(json, "samples_per_s", event.samples_per_s);
  put_finite(json, "eta_s", event.eta_s);
  return json_text(json) + '\n';
}

std::optional<ProgressEvent> parse_progress_line(std::string_view line) {
  if (line.size() > kMaxLineBytes || !is_safe_json(line)) return std::nullopt;
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  const auto phase = json.find("phase");
  if (phase == json.end() || !phase->is_string()) return std::nullopt;

  ProgressEvent event;
  event.phase = phase->get<std::string>();
  if (event.phase != "train" && event.phase != "validate" && event.phase != "test") {
    return std::nullopt;
  }
  const bool whole = read_member(json, "epoch", event.epoch) &&
                     read_member(json, "epochs", event.epochs) &&
                     read_member(json, "step", event.step) &&
                     read_member(json, "steps", event.steps) && take_metrics(json, event.metrics) &&
                     read_member(json, "samples_per_s", event.samples_per_s) &&
                     read_member(json, "eta_s", event.eta_s);
  if (!whole) return std::nullopt;
  return event;
}

}  // namespace muster::track
