#include "muster/text/subword/normalizer.h"

#include <array>
#include <utility>

#include "muster/base/text.h"
#include "muster/text/subword/bert_normalizer.h"
#include "muster/text/subword/normal_forms.h"
#include "muster/text/unicode/properties.h"
#include "muster/text/unicode/utf8.h"

namespace muster::text {
namespace {

/// All matches of a pattern become one text, which stands for the match's last code point.
class Replace : public Normalizer {
 public:
  Replace(Regex pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

  void apply(const AlignedText& from,
             const Piece& piece,
             Rewriter& out,
             NormalizerRoom& room) const override {
    room.matches.clear();
    pattern_.matches(from.text(), piece.begin, piece.end, room.matches);
    for (const Match& match : room.matches) {
      if (!match.found) {
        out.keep(match.begin, match.end);
      } else if (!content_.empty()) {
        out.put(content_, from.original(match.end - 1, match.end));
      }
    }
  }

 private:
  Regex pattern_;
  std::string content_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string content) : content_(std::move(content)) {}

  void apply(const AlignedText& from,
             const Piece& piece,
             Rewriter& out,
             NormalizerRoom&) const override {
    if (piece.begin == piece.end) return;
    if (!content_.empty()) out.put(content_, from.original(piece.begin, piece.begin + 1));
    out.keep(piece.begin, piece.end);
  }

 private:
  std::string content_;
};

class StripEnds : public Normalizer {
 public:
  StripEnds(bool left, bool right) : left_(left), right_(right) {}

  void apply(const AlignedText& from,
             const Piece& piece,
             Rewriter& out,
             NormalizerRoom&) const override {
    uint32_t begin = piece.begin, end = piece.end;
    while (left_ && begin < end) {
      const CodePoint c = first_code_point(from.text({begin, end}));
      if (!is_white_space(c.value)) break;
      begin += c.bytes;
    }
    while (right_ && begin < end) {
      const CodePoint c = last_code_point(from.text({begin, end}));
      if (!is_white_space(c.value)) break;
      end -= c.bytes;
    }
    out.keep(begin, end);
  }

 private:
  bool left_, right_;
};

std::unique_ptr<const Normalizer> read_replace(Section& section) {
  Section pattern = section.section("pattern");
  std::optional<std::string> text = pattern.optional_text("String");
  if (text && text->empty()) pattern.refuse("String", "it is not empty");
  const std::string regex = text ? literal_pattern(*text) : pattern.text("Regex");
  pattern.end();
  return std::make_unique<Replace>(Regex(regex, section.path_of("pattern")),
                                   section.text("content"));
}

void read_bert(Section& section, NormalizerChain& chain) {
  BertOptions options;
  options.clean_text = section.boolean("clean_text", true);
  options.handle_chinese_chars = section.boolean("handle_chinese_chars", true);
  options.lowercase = section.boolean("lowercase", true);
  options.strip_accents = section.boolean("strip_accents", options.lowercase);
  append_bert_normalizer(options, chain);
}

void append_from(const FileJson& json, const std::string& where, NormalizerChain& chain) {
  static constexpr std::array<std::pair<const char*, NormalForm>, 4> kForms = {
      {{"NFC", NormalForm::kNfc},
       {"NFD", NormalForm::kNfd},
       {"NFKC", NormalForm::kNfkc},
       {"NFKD", NormalForm::kNfkd}}};
  Section section(json, where);
  const std::string type = section.text("type");
  for (const auto& [name, form] : kForms) {
    if (type != name) continue;
    chain.push_back(make_normal_form(form));
    return section.end();
  }
  if (type == "Sequence") {
    const FileJson& list = section.need("normalizers");
    if (!list.is_array()) section.refuse("normalizers", "it is a list");
    for (size_t i = 0; i < list.size(); ++i)
      append_from(list[i], concat(where, ".normalizers[", i, "]"), chain);
  } else if (type == "BertNormalizer") {
    read_bert(section, chain);
  } else if (type == "Lowercase") {
    chain.push_back(make_lowercase());
  } else if (type == "StripAccents") {
    chain.push_back(make_strip_accents());
  } else if (type == "Replace") {
    chain.push_back(read_replace(section));
  } else if (type == "Prepend") {
    chain.push_back(std::make_unique<Prepend>(section.text("prepend")));
  } else if (type == "Strip") {
    const bool left = section.boolean("strip_left"), right = section.boolean("strip_right");
    chain.push_back(std::make_unique<StripEnds>(left, right));
  } else {
    section.refuse("type",
                   "Muster knows the normalizers BertNormalizer, NFC, NFD, NFKC, NFKD, Lowercase, "
                   "StripAccents, Strip, Replace, Prepend, Sequence",
                   type);
  }
  section.end();
}

}  // namespace

NormalizerChain read_normalizers(const FileJson& json, const std::string& where) {
  NormalizerChain chain;
  append_from(json, where, chain);
  return chain;
}

std::string normalized(const NormalizerChain& chain, std::string_view text) {
  std::array<AlignedText, 2> texts;
  texts[0].start(text);
  size_t now = 0;
  NormalizerRoom room;
  for (const auto& step : chain) {
    Rewriter out(texts[now], texts[1 - now]);
    step->apply(texts[now], {0, static_cast<uint32_t>(texts[now].text().size())}, out, room);
    out.commit();
    now = 1 - now;
  }
  return std::string(texts[now].text());
}

}  // namespace muster::text
