#include "muster/formats/tar/said_class.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/formats/utf8.h"

namespace muster::formats {
namespace {

constexpr int64_t kMostClassBytes = 1024;
constexpr int64_t kMostJsonBytes = 1 << 20;
constexpr std::string_view kImageParts[] = {"jpg", "jpeg", "png"};
constexpr const char* kClassFields[] = {"label", "cls", "class", "target"};

SaidClass class_in_text(std::string_view text) {
  const std::string_view name = trim(text);
  if (name.empty()) return {.fault = "it says no class: it is empty"};
  if (name.find_first_of(std::string_view("\n\r\0", 3)) != std::string_view::npos)
    return {.fault = "a class is one line of text"};
  if (std::string fault = class_fault(name); !fault.empty()) return {.fault = std::move(fault)};
  return {.text = std::string(name)};
}

SaidClass class_in_value(const Json& value) {
  if (value.is_string()) return class_in_text(value.get<std::string>());
  if (value.is_number_integer()) return {.text = value.dump()};
  return {.fault = "a class is a whole number or a text"};
}

SaidClass class_in_json(const std::string& text, const std::string& field) {
  try {
    const Json json = parse_json(text, "it");
    if (!json.is_object() && field.empty()) return class_in_value(json);
    if (json.is_object() && !field.empty() && json.contains(field))
      return class_in_value(json.at(field));
    for (const char* name : kClassFields)
      if (field.empty() && json.contains(name)) return class_in_value(json.at(name));
  } catch (const Error& error) {
    return {.fault = concat(error.text().refused, ": ", error.text().rule)};
  }
  return {.fault = concat("a class is its value of ",
                          field.empty() ? "label, cls, class or target" : field,
                          ", and it has none")};
}

}  // namespace

bool is_image_part(std::string_view part) {
  return std::ranges::find(kImageParts, part) != std::end(kImageParts);
}

LabelPart::LabelPart(const std::string& said) : part_(said) {
  if (said == "auto") {
    is_auto_ = true;
    return;
  }
  if (said.starts_with("json.")) {
    part_ = "json";
    field_ = said.substr(5);
  }
  if (!part_.empty() && !is_image_part(part_) && said != "json.") return;
  throw usage_error(
      {.refused = "label of tar shards",
       .rule = "the part of a sample that says its class: cls, txt, …, json, or json.FIELD",
       .value = concat('"', said, '"')});
}

int LabelPart::rank(std::string_view part) const {
  if (!is_auto_) return part == part_ ? 1 : 0;
  return part == "cls" ? 2 : part == "json" ? 1 : 0;
}

int64_t LabelPart::most_bytes(std::string_view part) {
  return part == "json" ? kMostJsonBytes : kMostClassBytes;
}

SaidClass LabelPart::read(std::string_view part, const std::string& contents) const {
  return part == "json" ? class_in_json(contents, field_)
                        : class_in_text(without_utf8_mark(contents));
}

}  // namespace muster::formats
