#include "muster/track/metrics_reader.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

namespace muster::track {
namespace {

constexpr std::array<std::string_view, 5> kOwnColumns = {
    "loss", "accuracy", "lr", "samples_per_s", "elapsed_s"};

/// Where a fault is, for its error.
struct Place {
  std::string_view where;
  int64_t line = 0;

  Error fault(std::string rule) const {
    return usage_error({.refused = concat(where, ", line ", line),
                        .rule = std::move(rule),
                        .hint = "the file was changed, or is not a run's metrics.jsonl"});
  }
};

int64_t count(const Json& row, const char* key, const Place& place) {
  const auto found = row.find(key);
  const bool whole =
      found != row.end() && found->is_number_integer() &&
      (!found->is_number_unsigned() || found->get<uint64_t>() <= uint64_t{INT64_MAX});
  if (!whole || found->get<int64_t>() < 0) {
    throw place.fault(concat('"', key, "\" is a whole number of at least 0"));
  }
  return found->get<int64_t>();
}

std::string phase_of(const Json& row, const Place& place) {
  const auto found = row.find("phase");
  if (found == row.end() || !found->is_string() || found->get_ref<const std::string&>().empty()) {
    throw place.fault("\"phase\" is a name");
  }
  return found->get<std::string>();
}

/// A number; null is one that JSON cannot hold, which older runs wrote as a text.
std::optional<double> number(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  if (text == "nan" || text == "-nan" || text == "inf" || text == "-inf") return to_double(text);
  return std::nullopt;
}

MetricsRow record(const Json& row, const Place& place) {
  if (!row.is_object()) throw place.fault("each line is a JSON object");
  MetricsRow out{.step = count(row, "step", place),
                 .epoch = count(row, "epoch", place),
                 .phase = phase_of(row, place)};
  for (const auto& [name, value] : row.items()) {
    if (name == "step" || name == "epoch" || name == "phase") continue;
    if (const auto found = number(value)) {
      out.values.emplace_back(name, *found);
    } else if (std::find(kOwnColumns.begin(), kOwnColumns.end(), name) != kOwnColumns.end()) {
      throw place.fault(concat('"', name, "\" is a number"));
    }
  }
  return out;
}

}  // namespace

MetricsRow parse_metrics_line(std::string_view line, std::string_view where, int64_t number) {
  const Place place{where, number};
  if (!is_safe_json(line)) throw place.fault("each line is a JSON object");
  return record(Json::parse(line, nullptr, /*allow_exceptions=*/false), place);
}

std::vector<MetricsRow> parse_metrics(std::string_view text, std::string_view where) {
  std::vector<MetricsRow> out;
  int64_t number = 0;
  for (size_t from = 0, end; (end = text.find('\n', from)) != std::string_view::npos;
       from = end + 1) {
    out.push_back(parse_metrics_line(text.substr(from, end - from), where, ++number));
  }
  return out;
}

std::vector<MetricsRow> read_metrics(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "metrics.jsonl";
  return parse_metrics(read_file(file), file.string());
}

}  // namespace muster::track
