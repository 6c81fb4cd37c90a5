#include "muster/train/classifier/learned_difference.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "muster/base/json.h"
#include "muster/base/text.h"

namespace muster::train {
namespace {

std::string short_text(const Json& json) {
  constexpr size_t kMost = 60;
  const std::string text = json_text(json);
  return text.size() > kMost ? concat(text.substr(0, kMost), "…") : text;
}

std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

/// Of a table's columns; none if the list is of something else.
std::vector<std::string> names_of_columns(const Json& list) {
  std::vector<std::string> names;
  for (const Json& column : list) {
    std::string name = column.is_object() ? text_at(column, "name") : "";
    if (name.empty()) return {};
    names.push_back(std::move(name));
  }
  return names;
}

/// The place of the first entry that differs.
template <class List>
size_t first_other(const List& before, const List& after) {
  size_t at = 0;
  while (at < before.size() && at < after.size() && before[at] == after[at]) ++at;
  return at;
}

/// Of a measured target.
std::string scale_text(const Json& number) {
  if (!number.is_object()) return "none, it is no number";
  return concat("less ",
                short_text(number.value("mean", Json())),
                ", divided by ",
                short_text(number.value("deviation", Json())));
}

std::optional<LearnedDifference> difference_of_columns(const Json& before, const Json& after) {
  const std::vector<std::string> then = names_of_columns(before), now = names_of_columns(after);
  if (then.empty() || now.empty()) return std::nullopt;
  const size_t at = first_other(then, now);
  if (then == now) {
    const size_t column = first_other(before, after);
    Json was = before[column], is = after[column];
    was.erase("name");
    is.erase("name");
    return LearnedDifference{
        concat("column \"", then[column], '"'), short_text(was), short_text(is)};
  }
  std::vector<std::string> sorted_then = then, sorted_now = now;
  std::sort(sorted_then.begin(), sorted_then.end());
  std::sort(sorted_now.begin(), sorted_now.end());
  const auto listed = [at](const std::vector<std::string>& names) {
    constexpr size_t kMostNamed = 12;
    if (names.size() <= kMostNamed) return join(names, ", ");
    return concat(names.size(),
                  " columns, number ",
                  at,
                  at < names.size() ? concat(" \"", names[at], '"') : " missing");
  };
  return LearnedDifference{sorted_then == sorted_now ? "order of the columns" : "list of columns",
                           listed(then),
                           listed(now)};
}

}  // namespace

LearnedDifference learned_difference(const Json& then, const Json& now) {
  const std::string target = text_at(then, "target"), other = text_at(now, "target");
  if (!target.empty() && !other.empty() && target != other) return {"target", target, other};
  for (const auto& [name, before] : then.items()) {
    const Json after = now.value(name, Json());
    if (before == after) continue;
    if (name == "number" && before.is_object() && !target.empty())
      return {concat("mean and deviation of the target \"", target, '"'),
              scale_text(before),
              scale_text(after)};
    if (!before.is_array() || !after.is_array())
      return {name, short_text(before), short_text(after)};
    if (name == "columns") {
      if (auto found = difference_of_columns(before, after)) return *std::move(found);
    }
    const size_t at = first_other(before, after);
    const auto described = [at](const Json& list) {
      return concat(list.size(),
                    " entries, number ",
                    at,
                    at < list.size() ? " " + short_text(list[at]) : " missing");
    };
    return {name, described(before), described(after)};
  }
  return {"kind of data", "the run's", "another"};
}

}  // namespace muster::train
