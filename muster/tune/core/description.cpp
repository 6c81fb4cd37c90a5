#include "muster/tune/core/description.h"

#include "muster/base/json.h"
#include "muster/base/text.h"
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

std::vector<std::string> describe_differences(const Json& stored, const Json& now) {
  std::vector<std::string> lines;
  for (const auto& [key, value] : now.items()) {
    const Json before = stored.value(key, Json());
    if (before == value) continue;
    const auto changes = key == "space" ? space_changes(before, value) : std::nullopt;
    if (changes && !changes->empty()) {
      add_space_lines(*changes, lines);
    } else {
      lines.push_back(concat("- ", key, " = ", json_text(before)));
      lines.push_back(concat("+ ", key, " = ", json_text(value)));
    }
  }
  return lines;
}

}  // namespace muster::tune
