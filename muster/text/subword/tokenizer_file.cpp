// tokenizer.json as a whole.
#include <utility>

#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/text/subword/tokenizer_parts.h"

namespace muster::text {
namespace {

Side read_side(Section& section, const char* key) {
  const std::string side = section.optional_text(key).value_or("Right");
  if (side != "Right" && side != "Left") section.refuse(key, "Right or Left", side);
  return side == "Left" ? Side::kLeft : Side::kRight;
}

Truncation read_truncation(const FileJson& json, const std::string& where) {
  Section section(json, where);
  Truncation out;
  out.max_length = section.number("max_length");
  out.stride = section.number("stride", 0);
  out.side = read_side(section, "direction");
  const std::string strategy = section.text("strategy");
  if (strategy != "LongestFirst" && strategy != "OnlyFirst" && strategy != "OnlySecond")
    section.refuse("strategy", "LongestFirst, OnlyFirst or OnlySecond", strategy);
  out.strategy = strategy == "OnlyFirst"    ? TruncationStrategy::kOnlyFirst
                 : strategy == "OnlySecond" ? TruncationStrategy::kOnlySecond
                                            : TruncationStrategy::kLongestFirst;
  section.end();
  return out;
}

Padding read_padding(const FileJson& json, const std::string& where) {
  Section section(json, where);
  Padding out;
  const FileJson& strategy = section.need("strategy");
  if (strategy.is_object()) {
    Section fixed(strategy, section.path_of("strategy"));
    out.fixed_length = fixed.number("Fixed");
    if (out.fixed_length > (1U << 20)) fixed.refuse("Fixed", "it is at most 1048576");
    fixed.end();
  } else if (text_of(strategy, section.path_of("strategy")) != "BatchLongest") {
    section.refuse("strategy", "BatchLongest, or {\"Fixed\": length}", strategy.get<std::string>());
  }
  out.side = read_side(section, "direction");
  out.multiple_of = section.number("pad_to_multiple_of", 0);
  if (out.multiple_of > (1U << 20)) section.refuse("pad_to_multiple_of", "it is at most 1048576");
  out.pad_id = section.number("pad_id");
  out.pad_type_id = section.number("pad_type_id");
  section.text("pad_token");
  section.end();
  return out;
}

}  // namespace

std::shared_ptr<const Tokenizer::Parts> Tokenizer::Parts::read(std::string_view json,
                                                               std::string_view name) {
  const FileJson file = parse_tokenizer_file(json, name);
  Section all(file, std::string(name));
  auto parts = std::make_shared<Parts>();
  const std::string version = all.text("version");
  if (version != "1.0") all.refuse("version", "it is 1.0", version);
  if (const FileJson* found = all.find("truncation"))
    parts->truncation = read_truncation(*found, all.path_of("truncation"));
  if (const FileJson* found = all.find("padding"))
    parts->padding = read_padding(*found, all.path_of("padding"));
  if (const FileJson* found = all.find("normalizer"))
    parts->normalizers = read_normalizers(*found, all.path_of("normalizer"));
  if (const FileJson* found = all.find("pre_tokenizer"))
    parts->pre_tokenizers = read_pre_tokenizers(*found, all.path_of("pre_tokenizer"));
  if (const FileJson* found = all.find("post_processor"))
    parts->post_processor = read_post_processor(*found, all.path_of("post_processor"));
  if (const FileJson* found = all.find("decoder"))
    parts->decoders = read_decoders(*found, all.path_of("decoder"));
  parts->model = read_model(all.need("model"), all.path_of("model"), parts->pre_tokenizers.bytes);
  if (const FileJson* found = all.find("added_tokens"))
    parts->added.read(
        *found, all.path_of("added_tokens"), parts->model->table(), parts->normalizers);
  all.end();
  if (parts->post_processor.trim) {
    parts->spaces.resize(parts->model->table().id_limit());
    for (uint32_t id = 0; id < parts->spaces.size(); ++id) {
      const std::string* token = parts->model->table().token(id);
      if (token != nullptr) parts->spaces[id] = space_of(*token);
    }
  }
  return parts;
}

Tokenizer Tokenizer::parse(std::string_view json, std::string_view name) {
  Tokenizer out(Parts::read(json, name));
  out.truncation_ = out.parts_->truncation;
  out.padding_ = out.parts_->padding;
  return out;
}

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  return parse(read_file(path), path.string());
}

}  // namespace muster::text
