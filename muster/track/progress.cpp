#include "muster/track/progress.h"

#include <cmath>

#include "muster/base/json.h"

namespace muster::track {
namespace {

// Longer lines are not ours: a progress line has nine short fields.
constexpr size_t kMaxLineBytes = 4096;

void put_finite(Json& json, const char* key, const std::optional<double>& value) {
  if (value && std::isfinite(*value)) json[key] = *value;
}

/// A count that is missing keeps its default; one that is not a whole number of at least 0 spoils
/// the line.
bool take(const Json& json, const char* key, int64_t& value) {
  const auto found = json.find(key);
  if (found == json.end()) return true;
  if (!found->is_number_integer()) return false;
  if (found->is_number_unsigned() && found->get<uint64_t>() > uint64_t{INT64_MAX}) return false;
  value = found->get<int64_t>();
  return value >= 0;
}

bool take(const Json& json, const char* key, std::optional<double>& value) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return true;
  if (!found->is_number()) return false;
  value = found->get<double>();
  return std::isfinite(*value);
}

}  // namespace

std::string to_json_line(const ProgressEvent& event) {
  Json json = {{"phase", event.phase},
               {"epoch", event.epoch},
               {"epochs", event.epochs},
               {"step", event.step},
               {"steps", event.steps}};
  put_finite(json, "loss", event.loss);
  put_finite(json, "accuracy", event.accuracy);
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
  const bool whole = take(json, "epoch", event.epoch) && take(json, "epochs", event.epochs) &&
                     take(json, "step", event.step) && take(json, "steps", event.steps) &&
                     take(json, "loss", event.loss) && take(json, "accuracy", event.accuracy) &&
                     take(json, "samples_per_s", event.samples_per_s) &&
                     take(json, "eta_s", event.eta_s);
  if (!whole) return std::nullopt;
  return event;
}

}  // namespace muster::track
