#include "muster/text/subword/post_processor.h"

#include <algorithm>
#include <map>
#include <utility>

#include "muster/base/text.h"

namespace muster::text {
namespace {

Encoding special_tokens(const TemplatePart& part) {
  Encoding out;
  const size_t count = part.ids.size();
  out.ids = part.ids;
  out.type_ids.assign(count, part.type_id);
  out.offsets.assign(count, {});
  out.words.assign(count, -1);
  out.special_tokens_mask.assign(count, 1);
  out.attention_mask.assign(count, 1);
  return out;
}

using SpecialIds = std::map<std::string, std::vector<uint32_t>>;

SpecialIds read_special_ids(Section& section) {
  SpecialIds out;
  const std::string where = section.path_of("special_tokens");
  const FileJson& all = section.need("special_tokens");
  if (!all.is_object()) refuse_value(where, "it is an object");
  for (const auto& [name, json] : all.items()) {
    Section token(json, concat(where, "[\"", name, "\"]"));
    token.text("id");
    token.need("tokens");
    const FileJson& ids = token.need("ids");
    if (!ids.is_array()) token.refuse("ids", "it is a list");
    for (const FileJson& id : ids) out[name].push_back(number_of(id, token.path_of("ids")));
    token.end();
  }
  return out;
}

std::vector<TemplatePart> read_template(Section& section, const char* key, const SpecialIds& ids) {
  std::vector<TemplatePart> out;
  const FileJson& list = section.need(key);
  if (!list.is_array()) section.refuse(key, "it is a list");
  for (size_t i = 0; i < list.size(); ++i) {
    Section outer(list[i], concat(section.path_of(key), "[", i, "]"));
    const bool special = outer.find("SpecialToken") != nullptr;
    Section part = outer.section(special ? "SpecialToken" : "Sequence");
    const std::string id = part.text("id");
    TemplatePart& added = out.emplace_back();
    added.type_id = part.number("type_id");
    if (special) {
      const auto known = ids.find(id);
      if (known == ids.end()) part.refuse("id", "it is one of special_tokens", id);
      added.ids = known->second;
    } else {
      if (id != "A" && id != "B") part.refuse("id", "A or B", id);
      added.text = id == "B" ? 1 : 0;
    }
    part.end();
    outer.end();
  }
  return out;
}

uint32_t read_special(Section& section, const char* key) {
  const FileJson& pair = section.need(key);
  if (!pair.is_array() || pair.size() != 2) section.refuse(key, "it is a token and its id");
  text_of(pair[0], section.path_of(key));
  return number_of(pair[1], section.path_of(key));
}

void read_bert_or_roberta(Section& section, bool roberta, PostProcessor& out) {
  const TemplatePart cls{.ids = {read_special(section, "cls")}};
  const TemplatePart sep{.ids = {read_special(section, "sep")}};
  TemplatePart last = sep;
  last.type_id = roberta ? 0 : 1;
  out.sets_types = roberta;
  out.single = {cls, {.text = 0}, sep};
  out.pair = out.single;
  if (roberta) out.pair.push_back(sep);
  out.pair.push_back({.text = 1, .type_id = last.type_id});
  out.pair.push_back(last);
}

void read_trim(Section& section, PostProcessor& out) {
  const bool prefix = section.boolean("add_prefix_space");
  if (section.boolean("trim_offsets")) out.trim = OffsetTrim{prefix};
}

void read_one(const FileJson& json,
              const std::string& where,
              PostProcessor& out,
              bool& has_template) {
  Section section(json, where);
  const std::string type = section.text("type");
  const bool adds =
      type == "TemplateProcessing" || type == "BertProcessing" || type == "RobertaProcessing";
  if (adds && std::exchange(has_template, true))
    section.refuse("type", "one post-processor adds special tokens", type);
  if (type == "Sequence") {
    const FileJson& list = section.need("processors");
    if (!list.is_array()) section.refuse("processors", "it is a list");
    for (size_t i = 0; i < list.size(); ++i)
      read_one(list[i], concat(where, ".processors[", i, "]"), out, has_template);
  } else if (type == "ByteLevel") {
    if (out.trim) section.refuse("type", "one post-processor trims offsets", type);
    if (has_template)
      section.refuse("type", "ByteLevel stands before what adds special tokens", type);
    section.boolean("use_regex", true);  // of the pre-tokenizer of the same name
    read_trim(section, out);
  } else if (type == "TemplateProcessing") {
    const SpecialIds ids = read_special_ids(section);
    out.single = read_template(section, "single", ids);
    out.pair = read_template(section, "pair", ids);
    out.sets_types = true;
    for (const TemplatePart& part : out.single) {
      if (part.text == 1) section.refuse("single", "it has no second text");
    }
  } else if (type == "BertProcessing") {
    read_bert_or_roberta(section, false, out);
  } else if (type == "RobertaProcessing") {
    if (out.trim) section.refuse("type", "one post-processor trims offsets", type);
    read_bert_or_roberta(section, true, out);
    out.roberta_types = true;
    read_trim(section, out);
  } else {
    section.refuse("type",
                   "Muster knows the post-processors TemplateProcessing, ByteLevel, "
                   "BertProcessing, RobertaProcessing, Sequence",
                   type);
  }
  section.end();
}

}  // namespace

uint32_t PostProcessor::added(bool is_pair) const {
  size_t count = 0;
  for (const TemplatePart& part : is_pair ? pair : single) count += part.ids.size();
  return static_cast<uint32_t>(count);
}

Encoding PostProcessor::process(std::vector<Encoding> texts, bool add_special_tokens) const {
  Encoding out;
  bool first = true;
  for (const TemplatePart& part : texts.size() > 1 ? pair : single) {
    if (part.text < 0 && !add_special_tokens) continue;
    Encoding special;
    if (part.text < 0) special = special_tokens(part);
    Encoding& next = part.text < 0 ? special : texts[static_cast<size_t>(part.text)];
    if (part.text >= 0 && (sets_types || roberta_types))
      std::fill(next.type_ids.begin(), next.type_ids.end(), part.type_id);
    if (part.text >= 0 && roberta_types &&
        add_special_tokens) {  // what was cut off, too, but only then
      for (Encoding& cut : next.overflowing)
        std::fill(cut.type_ids.begin(), cut.type_ids.end(), part.type_id);
    }
    if (std::exchange(first, false)) {
      out = next;
    } else {
      append_encoding(out, next);
    }
  }
  return out;
}

PostProcessor read_post_processor(const FileJson& json, const std::string& where) {
  PostProcessor out;
  bool has_template = false;
  read_one(json, where, out, has_template);
  return out;
}

}  // namespace muster::text
