// A space as JSON, for storage and for messages; a trial's values as JSON, for its program.
#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/tune/space/space_impl.h"

namespace muster::tune {
namespace {

Json describe_domain(const Domain& domain) {
  const bool is_plain = domain.kind() == Domain::Kind::kConstant && !domain.constant().is_text();
  return is_plain ? to_json(domain.constant()) : Json(domain.text());
}

[[noreturn]] void refuse_description(const Json& description) {
  throw usage_error({.refused = "the description of a search space",
                     .rule = "it is a list of objects with name, domain and perhaps when",
                     .value = json_text(description).substr(0, 200)});
}

/// Throws for an object that description() did not write.
Parameter read_parameter(const Json& object) {
  const bool fits = object.is_object() && object.contains("name") &&
                    object.at("name").is_string() && object.contains("domain") &&
                    (!object.contains("when") || object.at("when").is_string());
  if (!fits) refuse_description(object);
  const std::string name = object.at("name");
  const Json& domain = object.at("domain");
  const std::string where = concat("parameter \"", name, '"');
  if (domain == "sample_from(<function>)")
    throw usage_error({.refused = where, .rule = "a C++ function is not kept with a study"});
  return {.name = name,
          .domain = domain.is_string() ? Domain::parse(domain.get<std::string>(), where)
                                       : Domain(value_from(domain, where)),
          .when = object.value("when", "")};
}

/// "loguniform(1e-4, 0.1) when a == 1"
std::string description_line(const Json& object) {
  const Json domain = object.value("domain", Json());
  std::string line = domain.is_string() ? domain.get<std::string>() : json_text(domain);
  if (const Json when = object.value("when", Json()); when.is_string())
    line += " when " + when.get<std::string>();
  return line;
}

/// Lines by parameter, in order; nothing for what is no description.
std::optional<std::vector<std::pair<std::string, std::string>>> lines_of(const Json& description) {
  if (!description.is_array()) return std::nullopt;
  std::vector<std::pair<std::string, std::string>> lines;
  for (const Json& object : description) {
    if (!object.is_object() || !object.contains("name") || !object.at("name").is_string())
      return std::nullopt;
    lines.emplace_back(object.at("name"), description_line(object));
  }
  return lines;
}

}  // namespace

Json Space::description() const {
  Json out = Json::array();
  for (const Parameter& parameter : impl_->parameters) {
    Json object = {{"name", parameter.name}, {"domain", describe_domain(parameter.domain)}};
    if (!trim(parameter.when).empty()) object["when"] = std::string(trim(parameter.when));
    out.push_back(std::move(object));
  }
  return out;
}

Space Space::from_description(const Json& description) {
  if (!description.is_array()) refuse_description(description);
  std::vector<Parameter> parameters;
  for (const Json& object : description) parameters.push_back(read_parameter(object));
  return Space(std::move(parameters));
}

std::optional<std::vector<SpaceChange>> space_changes(const Json& stored, const Json& now) {
  const auto before = lines_of(stored), after = lines_of(now);
  if (!before || !after) return std::nullopt;
  const auto find = [](const auto& lines, const std::string& name) {
    return std::find_if(lines.begin(), lines.end(), [&](const auto& l) { return l.first == name; });
  };
  std::vector<SpaceChange> out;
  for (const auto& [name, line] : *after) {
    const auto old = find(*before, name);
    if (old == before->end()) {
      out.push_back({.name = name, .now = line});
    } else if (old->second != line) {
      out.push_back({.name = name, .stored = old->second, .now = line});
    }
  }
  for (const auto& [name, line] : *before) {
    if (find(*after, name) == after->end()) out.push_back({.name = name, .stored = line});
  }
  // Points and values are kept in the order of the space.
  if (out.empty() && *after != *before) out.push_back({});
  return out;
}

std::vector<std::string> Space::differences(const Json& stored) const {
  const auto changes = space_changes(stored, description());
  if (!changes) return {"the stored search space is not readable"};
  std::vector<std::string> out;
  for (const auto& [name, before, now] : *changes) {
    if (!before && !now) {
      out.emplace_back(kOtherOrder);
    } else if (!before) {
      out.push_back(concat(name, ": ", *now, ", which the stored study has not"));
    } else {
      out.push_back(now ? concat(name, ": ", *now, ", was ", *before)
                        : concat(name, ": gone, was ", *before));
    }
  }
  return out;
}

Json to_json(const Space& space, const Values& values) {
  const auto parameters = space.parameters();
  if (values.size() != parameters.size()) {
    throw usage_error({.refused = concat(values.size(), " values"),
                       .rule = concat("the space has ", parameters.size(), " parameters")});
  }
  Json out = Json::object();
  for (size_t p = 0; p < values.size(); ++p) {
    if (values[p].is_none()) continue;
    Json* at = &out;
    for (const std::string& part : split(parameters[p].name, '.')) at = &(*at)[part];
    *at = to_json(values[p]);
  }
  return out;
}

}  // namespace muster::tune
