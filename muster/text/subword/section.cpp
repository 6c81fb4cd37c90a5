#include "muster/text/subword/section.h"

#include <utility>
#include <vector>

#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/text/unicode/utf8.h"

namespace muster::text {
namespace {

std::string shown_json(const FileJson& json) {
  return json.dump(-1, ' ', false, FileJson::error_handler_t::replace).substr(0, 80);
}

}  // namespace

void refuse_value(const std::string& where, std::string rule, std::string value) {
  throw environment_error(
      {.refused = where, .rule = std::move(rule), .value = value.substr(0, 200), .hint = {}});
}

const std::string& text_of(const FileJson& json, const std::string& where) {
  if (!json.is_string()) refuse_value(where, "it is a string", shown_json(json));
  return json.get_ref<const std::string&>();
}

uint32_t number_of(const FileJson& json, const std::string& where) {
  if (!json.is_number_unsigned() || json.get<uint64_t>() >= UINT32_MAX)
    refuse_value(where, "it is a whole number from 0 to 4294967294", shown_json(json));
  return static_cast<uint32_t>(json.get<uint64_t>());
}

Section::Section(const FileJson& json, std::string where) : json_(json), where_(std::move(where)) {
  if (!json_.is_object()) refuse_value(where_, "it is an object", shown_json(json_));
}

const FileJson* Section::find(const char* key) {
  known_.insert(key);
  const auto at = json_.find(key);
  return at == json_.end() || at->is_null() ? nullptr : &*at;
}

const FileJson& Section::need(const char* key) {
  const FileJson* value = find(key);
  if (value == nullptr) refuse_value(where_, concat("it has \"", key, "\""));
  return *value;
}

std::string Section::text(const char* key) { return text_of(need(key), path_of(key)); }

std::optional<std::string> Section::optional_text(const char* key) {
  const FileJson* value = find(key);
  if (value == nullptr) return std::nullopt;
  return text_of(*value, path_of(key));
}

bool Section::boolean(const char* key, std::optional<bool> otherwise) {
  const FileJson* value = find(key);
  if (value == nullptr && otherwise) return *otherwise;
  const FileJson& there = need(key);
  if (!there.is_boolean()) refuse_value(path_of(key), "it is true or false", shown_json(there));
  return there.get<bool>();
}

uint32_t Section::number(const char* key, std::optional<uint32_t> otherwise) {
  const FileJson* value = find(key);
  if (value == nullptr && otherwise) return *otherwise;
  return number_of(need(key), path_of(key));
}

char32_t Section::letter(const char* key) {
  const std::string value = text(key);
  if (value.empty() || first_code_point(value).bytes != value.size())
    refuse_value(path_of(key), "it is one character", value);
  return first_code_point(value).value;
}

void Section::end() const {
  for (const auto& [key, value] : json_.items()) {
    if (!known_.contains(key))
      refuse_value(concat(where_, ".", key), "Muster knows no such key here", shown_json(value));
  }
}

void Section::refuse(const char* key, std::string rule, std::string value) const {
  refuse_value(path_of(key), std::move(rule), std::move(value));
}

FileJson parse_tokenizer_file(std::string_view text, std::string_view name) {
  const auto refuse = [&](std::string rule, std::string value = {}) {
    refuse_value(concat(name, " is no tokenizer file"), std::move(rule), std::move(value));
  };
  if (!is_safe_json(text)) refuse("it is nested at most 64 deep and has no zero byte");
  std::vector<std::set<std::string>> open;
  std::optional<std::string> twice;
  const FileJson::parser_callback_t watch =
      [&](int, FileJson::parse_event_t event, FileJson& value) {
        using Event = FileJson::parse_event_t;
        if (event == Event::object_start) open.emplace_back();
        if (event == Event::object_end) open.pop_back();
        if (event == Event::key) {
          const auto& key = value.get_ref<const std::string&>();
          if (!open.back().insert(key).second && !twice) twice = key;
        }
        return true;
      };
  try {
    FileJson json = FileJson::parse(text, watch);
    if (twice) refuse("an object has each key once", *twice);
    return json;
  } catch (const FileJson::parse_error& error) {
    refuse(concat("it is JSON; fault at byte ", error.byte));
  } catch (const FileJson::out_of_range&) {
    refuse("its numbers fit into a double");
  }
  return {};
}

}  // namespace muster::text
