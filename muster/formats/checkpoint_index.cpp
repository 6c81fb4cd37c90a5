#include "muster/formats/checkpoint_index.h"

#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/formats/crc32.h"

namespace muster::formats {
namespace {

constexpr size_t kMaxShownBytes = 60;  // of a wrong value, in the error
constexpr int64_t kFormatWithoutChecksum = 2;
constexpr const char* kChecksum = "checksum";

/// The end of a text of which all before it is `before`.
std::string checksum_line(std::string_view before) {
  return concat(",\n  \"", kChecksum, "\": \"", crc32_text(crc32_of(before)), "\"\n}\n");
}

/// One read of one text. `where_` is named by every refusal.
class IndexReader {
 public:
  explicit IndexReader(const std::string& where) : where_(where) {}

  CheckpointIndex read(std::string_view text) const {
    const Json state = parse_json(text, where_);
    if (!state.is_object()) refuse_index("it is a JSON object", shown(state));
    CheckpointIndex index;
    index.format = number(state, "format", 1);
    check_format(index.format);
    check_checksum(index.format, state, text);
    index.position = {.step = number(state, "step", 0),
                      .epoch = number(state, "epoch", 0),
                      .samples = number(state, "samples", 0)};
    index.world_size = number(state, "world_size", 1);
    index.global_batch = number(state, "global_batch", 1);
    if (index.format == kCheckpointFormat) index.best_step = number(state, "best_step", -1);
    index.loop = object(state, "loop");
    index.plan = object(state, "plan");
    for (const auto& [name, part] : object(state, "files").items()) {
      index.files[file_name(name)] = {
          .bytes = static_cast<uint64_t>(number(part, "bytes", 0, INT64_MAX, name)),
          .crc32 = static_cast<uint32_t>(number(part, "crc32", 0, UINT32_MAX, name))};
    }
    return index;
  }

 private:
  static std::string shown(const Json& value) {
    std::string text = json_text(value);
    if (text.size() <= kMaxShownBytes) return text;
    return text.substr(0, kMaxShownBytes) + "…";
  }

  [[noreturn]] void refuse_index(const std::string& rule, const std::string& value = "") const {
    throw usage_error({.refused = where_ + " cannot be used",
                       .rule = rule,
                       .value = value,
                       .hint = "it is damaged or was not written by Muster"});
  }

  const Json& field(const Json& in, const char* key, const std::string& of) const {
    const std::string name = of.empty() ? key : concat("files.", of, ".", key);
    if (!in.is_object() || !in.contains(key)) refuse_index(concat("\"", name, "\" is missing"));
    return in[key];
  }

  int64_t number(const Json& in,
                 const char* key,
                 int64_t least,
                 int64_t most = INT64_MAX,
                 const std::string& of = "") const {
    const Json& value = field(in, key, of);
    const std::string name = of.empty() ? key : concat("files.", of, ".", key);
    if (!value.is_number_integer())
      refuse_index(concat("\"", name, "\" has the wrong type: it is a whole number"), shown(value));
    const bool huge = value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX};
    if (huge || value.get<int64_t>() < least || value.get<int64_t>() > most)
      refuse_index(concat("\"", name, "\" is from ", least, " to ", most), shown(value));
    return value.get<int64_t>();
  }

  const Json& object(const Json& in, const char* key) const {
    const Json& value = field(in, key, "");
    if (!value.is_object())
      refuse_index(concat("\"", key, "\" has the wrong type: it is an object"), shown(value));
    return value;
  }

  /// A name that leads nowhere but into the checkpoint's own folder.
  const std::string& file_name(const std::string& name) const {
    const bool plain = !name.empty() && name != "." && name != ".." &&
                       name.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
    if (!plain) refuse_index("\"files\" are names within the checkpoint's folder", shown(name));
    return name;
  }

  void check_format(int64_t format) const {
    if (format == kCheckpointFormat || format == kFormatWithoutChecksum) return;
    throw usage_error(
        {.refused = where_ + " cannot be used",
         .rule = concat(
             "this Muster reads the formats ", kFormatWithoutChecksum, " and ", kCheckpointFormat),
         .value = concat("format ", format),
         .hint = "resume with the version of Muster that wrote it"});
  }

  void check_checksum(int64_t format, const Json& state, std::string_view text) const {
    if (format == kFormatWithoutChecksum) {
      if (!state.contains(kChecksum)) return;
      refuse_index(concat("it was altered: format ", format, " has no checksum"));
    }
    if (!state.contains(kChecksum)) refuse_index(concat('"', kChecksum, "\" is missing"));
    static const size_t line = checksum_line("").size();
    const std::string_view before = text.substr(0, text.size() - std::min(text.size(), line));
    if (text.substr(before.size()) != checksum_line(before))
      refuse_index("it was altered: its checksum differs from its content");
  }

  const std::string& where_;
};

}  // namespace

std::string to_state_json(const CheckpointIndex& index) {
  Json files = Json::object();
  for (const auto& [name, part] : index.files)
    files[name] = {{"bytes", part.bytes}, {"crc32", part.crc32}};
  const Json state = {{"format", kCheckpointFormat},
                      {"step", index.position.step},
                      {"epoch", index.position.epoch},
                      {"samples", index.position.samples},
                      {"world_size", index.world_size},
                      {"global_batch", index.global_batch},
                      {"best_step", index.best_step},
                      {"loop", index.loop},
                      {"plan", index.plan},
                      {"files", files}};
  return with_checksum(json_text(state, 2));
}

std::string with_checksum(std::string_view object) {
  const std::string_view before = trim(object.substr(0, object.rfind('}')));
  return concat(before, checksum_line(before));
}

std::string with_plan(std::string_view text, const Json& plan, const std::string& where) {
  parse_checkpoint_index(text, where);  // refuses what is not whole
  Json state = parse_json(text, where);
  state["plan"] = plan;
  const bool has_checksum = state.erase(kChecksum) > 0;
  const std::string object = json_text(state, 2);
  return has_checksum ? with_checksum(object) : object + '\n';
}

CheckpointIndex parse_checkpoint_index(std::string_view text, const std::string& where) {
  return IndexReader(where).read(text);
}

}  // namespace muster::formats
