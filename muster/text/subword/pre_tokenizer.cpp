#include "muster/text/subword/pre_tokenizer.h"

#include <utility>

#include "muster/base/text.h"
#include "muster/text/subword/split_behavior.h"
#include "muster/text/subword/splitter.h"
#include "muster/text/unicode/peer_tables.h"
#include "muster/text/unicode/properties.h"
#include "muster/text/unicode/utf8.h"

namespace muster::text {
namespace {

/// At code points for which a test holds.
template <class Test>
class SplitWhere : public PreTokenizer {
 public:
  SplitWhere(Test test, SplitBehavior behavior) : test_(test), behavior_(behavior) {}

  void split(const AlignedText& text,
             const Piece& piece,
             std::vector<Match>& matches,
             std::vector<Piece>& out) const override {
    const std::string_view all = text.text();
    matches.clear();
    uint32_t begin = piece.begin;
    for (uint32_t at = piece.begin; at < piece.end;) {
      const CodePoint c = first_code_point(all.substr(at));
      if (test_(c.value)) {
        if (at > begin) matches.push_back({begin, at, false});
        begin = at + c.bytes;
        matches.push_back({at, begin, true});
      }
      at += c.bytes;
    }
    if (piece.end > begin) matches.push_back({begin, piece.end, false});
    append_parts(matches, behavior_, out);
  }

 private:
  Test test_;
  SplitBehavior behavior_;
};

template <class Test>
std::unique_ptr<const PreTokenizer> make_split_where(Test test, SplitBehavior behavior) {
  return std::make_unique<SplitWhere<Test>>(test, behavior);
}

constexpr bool is_ascii_mark(char32_t c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
         (c >= '{' && c <= '~');
}

bool is_mark_for_bert(char32_t c) { return c < 0x80 ? is_ascii_mark(c) : is_bert_punctuation(c); }

/// Both steps of BERT's in one: without white space, punctuation by itself.
class BertPreTokenizer : public PreTokenizer {
 public:
  void split(const AlignedText& text,
             const Piece& piece,
             std::vector<Match>&,
             std::vector<Piece>& out) const override {
    const std::string_view all = text.text();
    uint32_t begin = piece.begin;
    for (uint32_t at = piece.begin; at < piece.end;) {
      const CodePoint c = first_code_point(all.substr(at));
      const bool space = is_white_space(c.value), mark = !space && is_mark_for_bert(c.value);
      if (space || mark) {
        if (at > begin) out.push_back({begin, at});
        begin = at + c.bytes;
        if (mark) out.push_back({at, begin});
      }
      at += c.bytes;
    }
    if (piece.end > begin) out.push_back({begin, piece.end});
  }
};

class SplitAtPattern : public PreTokenizer {
 public:
  SplitAtPattern(Regex pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void split(const AlignedText& text,
             const Piece& piece,
             std::vector<Match>& matches,
             std::vector<Piece>& out) const override {
    matches.clear();
    pattern_.matches(text.text(), piece.begin, piece.end, matches);
    for (Match& match : matches) match.found = match.found != invert_;
    append_parts(matches, behavior_, out);
  }

 private:
  Regex pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

class ByteLevel : public PreTokenizer {
 public:
  ByteLevel(bool prefix_space, bool use_regex) : prefix_space_(prefix_space), regex_(use_regex) {}

  bool rewrites(const AlignedText& text, const Piece& piece) const override {
    return prefix_space_ && !text.text(piece).starts_with(' ');
  }

  void rewrite(const AlignedText& from, const Piece& piece, Rewriter& out) const override {
    if (rewrites(from, piece)) out.put(" ", from.original(piece.begin, piece.begin + 1));
    out.keep(piece.begin, piece.end);
  }

  void split(const AlignedText& text,
             const Piece& piece,
             std::vector<Match>&,
             std::vector<Piece>& out) const override {
    if (regex_) {
      split_as_gpt2(text.text(), piece, out);
    } else {
      out.push_back(piece);
    }
  }

 private:
  bool prefix_space_, regex_;
};

enum class PrependScheme : uint8_t { kFirst, kAlways, kNever };

/// Blanks become a visible letter, with which each word begins.
class Metaspace : public PreTokenizer {
 public:
  Metaspace(char32_t replacement, PrependScheme scheme, bool split)
      : letter_(replacement), scheme_(scheme), split_(split) {
    append_utf8(replacement_, replacement);
  }

  bool rewrites(const AlignedText& text, const Piece& piece) const override {
    return text.text(piece).find(' ') != std::string_view::npos || prepends(text, piece);
  }

  void rewrite(const AlignedText& from, const Piece& piece, Rewriter& out) const override {
    if (prepends(from, piece)) out.put(replacement_, from.original(piece.begin, piece.begin + 1));
    uint32_t kept = piece.begin;
    for (uint32_t at = piece.begin; at < piece.end; ++at) {
      if (from.text()[at] != ' ') continue;
      out.keep(kept, at);
      out.put(replacement_, from.original(at, at + 1));
      kept = at + 1;
    }
    out.keep(kept, piece.end);
  }

  void split(const AlignedText& text,
             const Piece& piece,
             std::vector<Match>& matches,
             std::vector<Piece>& out) const override {
    if (!split_) return out.push_back(piece);
    const char32_t letter = letter_;
    const auto is_it = [letter](char32_t c) { return c == letter; };
    SplitWhere(is_it, SplitBehavior::kMergedWithNext).split(text, piece, matches, out);
  }

 private:
  bool prepends(const AlignedText& text, const Piece& piece) const {
    if (scheme_ == PrependScheme::kNever) return false;
    if (scheme_ == PrependScheme::kFirst && text.original_begin(piece) != 0) return false;
    const std::string_view its_text = text.text(piece);
    return !its_text.starts_with(' ') && !its_text.starts_with(replacement_);
  }

  char32_t letter_;
  PrependScheme scheme_;
  bool split_;
  std::string replacement_;
};

std::unique_ptr<const PreTokenizer> read_split(Section& section) {
  Section pattern = section.section("pattern");
  std::optional<std::string> text = pattern.optional_text("String");
  if (text && text->empty()) pattern.refuse("String", "it is not empty");
  const std::string regex = text ? literal_pattern(*text) : pattern.text("Regex");
  pattern.end();
  const SplitBehavior behavior = read_split_behavior(section, "behavior");
  return std::make_unique<SplitAtPattern>(
      Regex(regex, section.path_of("pattern")), behavior, section.boolean("invert", false));
}

std::unique_ptr<const PreTokenizer> read_metaspace(Section& section) {
  section.find("str_rep");  // of old files: the replacement once more
  const char32_t replacement = section.letter("replacement");
  const std::optional<std::string> scheme = section.optional_text("prepend_scheme");
  const bool prefix = section.boolean("add_prefix_space", true);
  PrependScheme known = prefix ? PrependScheme::kAlways : PrependScheme::kNever;
  if (scheme) {
    if (*scheme != "first" && *scheme != "always" && *scheme != "never")
      section.refuse("prepend_scheme", "first, always or never", *scheme);
    known = *scheme == "first"    ? PrependScheme::kFirst
            : *scheme == "always" ? PrependScheme::kAlways
                                  : PrependScheme::kNever;
  }
  return std::make_unique<Metaspace>(replacement, known, section.boolean("split", true));
}

void append_from_section(const FileJson& json, const std::string& where, PreTokenizerChain& chain) {
  Section section(json, where);
  const std::string type = section.text("type");
  if (chain.bytes) section.refuse("type", "nothing comes behind ByteLevel", type);
  if (type == "Sequence") {
    const FileJson& list = section.need("pretokenizers");
    if (!list.is_array()) section.refuse("pretokenizers", "it is a list");
    for (size_t i = 0; i < list.size(); ++i)
      append_from_section(list[i], concat(where, ".pretokenizers[", i, "]"), chain);
  } else if (type == "ByteLevel") {
    section.boolean("trim_offsets", true);  // of the post-processor of the same name
    const bool prefix = section.boolean("add_prefix_space");
    chain.steps.push_back(std::make_unique<ByteLevel>(prefix, section.boolean("use_regex", true)));
    chain.bytes = true;
  } else if (type == "BertPreTokenizer") {
    chain.steps.push_back(std::make_unique<BertPreTokenizer>());
  } else if (type == "Whitespace") {
    chain.steps.push_back(std::make_unique<SplitAtPattern>(
        Regex(
            R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200C}\x{200D}]+|[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200C}\x{200D}\s]+)",
            where),
        SplitBehavior::kRemoved,
        true));
  } else if (type == "WhitespaceSplit") {
    chain.steps.push_back(make_split_where(&is_white_space, SplitBehavior::kRemoved));
  } else if (type == "CharDelimiterSplit") {
    const char32_t letter = section.letter("delimiter");
    chain.steps.push_back(
        make_split_where([letter](char32_t c) { return c == letter; }, SplitBehavior::kRemoved));
  } else if (type == "Digits") {
    const bool single = section.boolean("individual_digits");
    chain.steps.push_back(make_split_where(
        &is_peer_number, single ? SplitBehavior::kIsolated : SplitBehavior::kContiguous));
  } else if (type == "Punctuation") {
    const bool has = section.find("behavior") != nullptr;
    const SplitBehavior behavior =
        has ? read_split_behavior(section, "behavior") : SplitBehavior::kIsolated;
    chain.steps.push_back(make_split_where(&is_mark_for_bert, behavior));
  } else if (type == "Split") {
    chain.steps.push_back(read_split(section));
  } else if (type == "Metaspace") {
    chain.steps.push_back(read_metaspace(section));
  } else {
    section.refuse("type",
                   "Muster knows the pre-tokenizers ByteLevel, BertPreTokenizer, Whitespace, "
                   "WhitespaceSplit, CharDelimiterSplit, Split, Digits, Punctuation, Metaspace, "
                   "Sequence",
                   type);
  }
  section.end();
}

}  // namespace

PreTokenizerChain read_pre_tokenizers(const FileJson& json, const std::string& where) {
  PreTokenizerChain chain;
  append_from_section(json, where, chain);
  return chain;
}

}  // namespace muster::text
