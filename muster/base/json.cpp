#include "muster/base/json.h"

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster {
namespace {

/// Remembers the first key that an object has twice.
class KeysSeen {
 public:
  bool operator()(int, Json::parse_event_t event, const Json& value) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start) open_.emplace_back();
    if (event == Event::object_end) open_.pop_back();
    if (event == Event::key && !open_.back().insert(value.get<std::string>()).second && !twice)
      twice = value.get<std::string>();
    return true;
  }

  std::optional<std::string> twice;

 private:
  std::vector<std::set<std::string>> open_;  // the keys of each object that is open
};

}  // namespace

bool is_safe_json(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\0') return false;
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else {
      if (c == '"') in_string = true;
      if ((c == '{' || c == '[') && ++depth > kMaxJsonDepth) return false;
      if (c == '}' || c == ']') --depth;
    }
  }
  return true;
}

Json parse_json(std::string_view text, std::string_view where) {
  const auto refused = [&] { return concat(where, " is not valid JSON"); };
  if (!is_safe_json(text)) {
    throw usage_error(
        {.refused = refused(),
         .rule = concat("it is nested at most ", kMaxJsonDepth, " deep and has no zero byte")});
  }
  try {
    KeysSeen seen;
    Json json = Json::parse(text, std::ref(seen));
    if (seen.twice)
      throw usage_error(
          {.refused = refused(), .rule = "an object has each key once", .value = *seen.twice});
    return json;
  } catch (const Json::parse_error& error) {
    throw usage_error({.refused = refused(), .rule = concat("fault at byte ", error.byte)});
  } catch (const Json::out_of_range&) {  // 1e999
    throw usage_error({.refused = refused(), .rule = "its numbers fit into a double"});
  }
}

std::string json_text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace muster
