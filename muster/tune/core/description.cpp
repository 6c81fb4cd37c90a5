#include "muster/tune/core/description.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/tune/core/stop_rules.h"
#include "muster/tune/space/space.h"

namespace muster::tune {
namespace {

void add_space_lines(const std::vector<SpaceChange>& changes, std::vector<std::string>& lines) {
  for (const auto& [name, stored, now] : changes) {
    if (stored) lines.push_back(concat("- ", name, " = ", *stored));
    if (now) lines.push_back(concat("+ ", name, " = ", *now));
    if (!stored && !now) lines.emplace_back(kOtherOrder);
  }
}

}  // namespace

namespace {

constexpr const char *kObjectives = "objectives", *kConstraints = "constraints";

// Studies of older versions do not have these: what they stop at only their logs tell.
constexpr const char *kStop = "stop", *kPlateau = "plateau", *kNanIsFailure = "nan_is_failure";
constexpr const char* kYoungKeys[] = {kStop, kPlateau, kNanIsFailure};

bool is_young(const std::string& key) {
  return std::ranges::find(kYoungKeys, key) != std::end(kYoungKeys);
}

/// The texts of a key that may be missing.
std::vector<std::string> texts_of(const Json& description, const char* key) {
  std::vector<std::string> texts;
  if (!description.is_object() || !description.contains(key)) return texts;
  for (const Json& text : description[key]) {
    if (!text.is_string()) {
      throw usage_error({.refused = concat(key, " of the study's description"),
                         .rule = "they are texts",
                         .hint = "the database was altered"});
    }
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

}  // namespace

void describe_goals(const Goals& goals, Json& description) {
  for (const Objective& objective : goals.objectives)
    description[kObjectives].push_back(objective_text(objective));
  for (const Constraint& constraint : goals.constraints)
    description[kConstraints].push_back(constraint_text(constraint));
}

Goals described_goals(const Json& description) {
  Goals goals;
  for (const std::string& text : texts_of(description, kObjectives))
    goals.objectives.push_back(parse_objective(text, "the study's description"));
  for (const std::string& text : texts_of(description, kConstraints))
    goals.constraints.push_back(parse_constraint(text, "the study's description"));
  return goals;
}

void describe_rules(const StudySpec& spec, Json& description) {
  Json stop = Json::array();
  for (const StopCriterion& criterion : spec.stop) stop.push_back(criterion_text(criterion));
  description[kStop] = std::move(stop);
  description[kPlateau] = nullptr;
  if (spec.plateau.patience > 0) {
    description[kPlateau] = {{"patience", spec.plateau.patience},
                             {"min_delta", spec.plateau.min_delta},
                             {"grace_period", spec.plateau.grace_period}};
  }
  description[kNanIsFailure] = spec.nan_is_failure;
}

Json as_old_as(const Json& stored, Json now) {
  for (const char* key : kYoungKeys) {
    if (stored.is_object() && !stored.contains(key)) now.erase(key);
  }
  return now;
}

std::vector<std::string> describe_differences(const Json& stored, const Json& now) {
  std::vector<std::string> lines;
  for (const auto& [key, value] : now.items()) {
    const Json before = stored.value(key, Json());
    if (before == value || (before.is_null() && is_young(key) && !stored.contains(key))) continue;
    const auto changes = key == "space" ? space_changes(before, value) : std::nullopt;
    if (changes && !changes->empty()) {
      add_space_lines(*changes, lines);
    } else {
      lines.push_back(concat("- ", key, " = ", json_text(before)));
      lines.push_back(concat("+ ", key, " = ", json_text(value)));
    }
  }
  // Of these a study need not have any.
  for (const char* key : {kObjectives, kConstraints}) {
    if (stored.is_object() && stored.contains(key) && !now.contains(key))
      lines.push_back(concat("- ", key, " = ", json_text(stored[key])));
  }
  return lines;
}

}  // namespace muster::tune
