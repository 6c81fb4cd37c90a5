#include "muster/base/error_report.h"

#include "muster/base/json.h"
#include "muster/base/text.h"

namespace muster {
namespace {

const Json* member(const Json& json, const char* key) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(key);
  return found == json.end() ? nullptr : &*found;
}

/// Python writes it as text.
std::optional<int64_t> whole(const Json* json) {
  if (json == nullptr) return std::nullopt;
  if (json->is_string()) return to_int(json->get<std::string>());
  const bool fits = json->is_number_integer() &&
                    (!json->is_number_unsigned() || json->get<uint64_t>() <= uint64_t{INT64_MAX});
  return fits ? std::optional(json->get<int64_t>()) : std::nullopt;
}

void read_ours(const Json& ours, ErrorReport& report) {
  report.monotonic_ns = whole(member(ours, "monotonic_ns"));
  const Json* consequence = member(ours, "is_consequence");
  report.is_consequence =
      consequence != nullptr && consequence->is_boolean() && consequence->get<bool>();
  const Json* after = member(ours, "after");
  if (after == nullptr || !after->is_array()) return;
  for (const Json& rank : *after) {
    if (const auto number = whole(&rank)) report.after.push_back(*number);
  }
}

}  // namespace

std::string error_report_text(const ErrorReport& report) {
  Json ours;
  if (report.monotonic_ns) ours["monotonic_ns"] = *report.monotonic_ns;
  ours["is_consequence"] = report.is_consequence;
  ours["after"] = report.after;
  Json extra;
  // torchrun shows "py_callstack" instead of the message where there is one.
  if (report.timestamp_s) extra["timestamp"] = std::to_string(*report.timestamp_s);
  extra["muster"] = ours;
  Json json;
  json["message"]["message"] = report.message;
  json["message"]["extraInfo"] = extra;
  return json_text(json);
}

std::optional<ErrorReport> parse_error_report(std::string_view text) {
  if (!is_safe_json(text)) return std::nullopt;
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const Json* message = member(json, "message");
  if (message == nullptr) return std::nullopt;
  const Json* holder = message->is_object() ? message : &json;
  const Json* words = message->is_object() ? member(*message, "message") : message;
  if (words == nullptr || !words->is_string()) return std::nullopt;
  ErrorReport report{.message = words->get<std::string>()};
  if (const Json* extra = member(*holder, "extraInfo")) {
    report.timestamp_s = whole(member(*extra, "timestamp"));
    if (const Json* ours = member(*extra, "muster")) read_ours(*ours, report);
  }
  return report;
}

}  // namespace muster
