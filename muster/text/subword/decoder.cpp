#include "muster/text/subword/decoder.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "muster/base/text.h"
#include "muster/text/subword/byte_alphabet.h"
#include "muster/text/subword/regex.h"
#include "muster/text/unicode/utf8.h"

namespace muster::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

void join_into_one(std::vector<std::string>& tokens) {
  std::string all;
  for (const std::string& token : tokens) all += token;
  tokens.assign(1, std::move(all));
}

class ByteLevelDecoder : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::string bytes;
    for (const std::string& token : tokens) append_bytes_of(token, bytes);
    tokens.assign(1, lossy_utf8(bytes));
  }

 private:
  /// A token with a letter that is not of the alphabet stands for itself.
  static void append_bytes_of(std::string_view token, std::string& bytes) {
    const size_t before = bytes.size();
    for (std::string_view rest = token; !rest.empty();) {
      const CodePoint c = first_code_point(rest);
      rest.remove_prefix(c.bytes);
      const std::optional<uint8_t> byte = byte_of_letter(c.value);
      if (!byte) {
        bytes.resize(before);
        bytes += token;
        return;
      }
      bytes += static_cast<char>(*byte);
    }
  }
};

class WordPieceDecoder : public Decoder {
 public:
  WordPieceDecoder(std::string prefix, bool cleanup)
      : prefix_(std::move(prefix)), cleanup_(cleanup) {}

  void apply(std::vector<std::string>& tokens) const override {
    static constexpr std::array<std::pair<const char*, const char*>, 11> kCleanups = {
        {{" .", "."},
         {" ?", "?"},
         {" !", "!"},
         {" ,", ","},
         {" ' ", "'"},
         {" n't", "n't"},
         {" 'm", "'m"},
         {" do not", " don't"},
         {" 's", "'s"},
         {" 've", "'ve"},
         {" 're", "'re"}}};
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::string& token = tokens[i];
      if (i > 0 && token.starts_with(prefix_)) {
        token.erase(0, prefix_.size());
      } else if (i > 0) {
        token.insert(0, " ");
      }
      if (!cleanup_) continue;
      for (const auto& [from, to] : kCleanups) replace_all(token, from, to);
    }
  }

 private:
  std::string prefix_;
  bool cleanup_;
};

class MetaspaceDecoder : public Decoder {
 public:
  MetaspaceDecoder(char32_t letter, bool drops_first) : drops_first_(drops_first) {
    append_utf8(letter_, letter);
  }

  void apply(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i)
      replace_all(tokens[i], letter_, i == 0 && drops_first_ ? "" : " ");
  }

 private:
  std::string letter_;
  bool drops_first_;
};

class BpeDecoder : public Decoder {
 public:
  explicit BpeDecoder(std::string suffix) : suffix_(std::move(suffix)) {}

  void apply(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i)
      replace_all(tokens[i], suffix_, i + 1 < tokens.size() ? " " : "");
  }

 private:
  std::string suffix_;
};

/// "<0x0A>" and the like become bytes; those of a run that are no UTF-8 become U+FFFD each.
class ByteFallbackDecoder : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::vector<std::string> out;
    std::string bytes;
    const auto end_run = [&] {
      if (bytes.empty()) return;
      if (valid_utf8_prefix(bytes) == bytes.size()) {
        out.push_back(std::exchange(bytes, {}));
        return;
      }
      out.insert(out.end(), bytes.size(), std::string(kReplacement));
      bytes.clear();
    };
    for (std::string& token : tokens) {
      if (const std::optional<char> byte = byte_of(token)) {
        bytes += *byte;
      } else {
        end_run();
        out.push_back(std::move(token));
      }
    }
    end_run();
    tokens = std::move(out);
  }

 private:
  static std::optional<char> byte_of(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
    uint8_t byte = 0;
    const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
    if (error != std::errc() || end != token.data() + 5) return std::nullopt;
    return static_cast<char>(byte);
  }
};

class FuseDecoder : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override { join_into_one(tokens); }
};

class StripDecoder : public Decoder {
 public:
  StripDecoder(char32_t letter, uint32_t start, uint32_t stop) : start_(start), stop_(stop) {
    append_utf8(letter_, letter);
  }

  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) {
      std::string_view left = token;
      for (uint32_t i = 0; i < start_ && left.starts_with(letter_); ++i)
        left.remove_prefix(letter_.size());
      for (uint32_t i = 0; i < stop_ && left.ends_with(letter_); ++i)
        left.remove_suffix(letter_.size());
      token = std::string(left);
    }
  }

 private:
  std::string letter_;
  uint32_t start_, stop_;
};

class ReplaceDecoder : public Decoder {
 public:
  ReplaceDecoder(Regex pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

  void apply(std::vector<std::string>& tokens) const override {
    std::vector<Match> matches;
    for (std::string& token : tokens) {
      matches.clear();
      pattern_.matches(token, 0, static_cast<uint32_t>(token.size()), matches);
      std::string out;
      for (const Match& match : matches)
        out += match.found ? content_ : token.substr(match.begin, match.end - match.begin);
      token = std::move(out);
    }
  }

 private:
  Regex pattern_;
  std::string content_;
};

std::unique_ptr<const Decoder> read_metaspace_decoder(Section& section) {
  section.find("str_rep");
  section.find("split");
  const std::optional<std::string> scheme = section.optional_text("prepend_scheme");
  const bool prefix = section.boolean("add_prefix_space", true);
  const bool drops = scheme ? *scheme != "never" : prefix;
  return std::make_unique<MetaspaceDecoder>(section.letter("replacement"), drops);
}

std::unique_ptr<const Decoder> read_replace_decoder(Section& section) {
  Section pattern = section.section("pattern");
  std::optional<std::string> text = pattern.optional_text("String");
  if (text && text->empty()) pattern.refuse("String", "it is not empty");
  const std::string regex = text ? literal_pattern(*text) : pattern.text("Regex");
  pattern.end();
  return std::make_unique<ReplaceDecoder>(Regex(regex, section.path_of("pattern")),
                                          section.text("content"));
}

void append_decoder(const FileJson& json, const std::string& where, DecoderChain& chain) {
  Section section(json, where);
  const std::string type = section.text("type");
  if (type == "Sequence") {
    const FileJson& list = section.need("decoders");
    if (!list.is_array()) section.refuse("decoders", "it is a list");
    for (size_t i = 0; i < list.size(); ++i)
      append_decoder(list[i], concat(where, ".decoders[", i, "]"), chain);
  } else if (type == "ByteLevel") {
    for (const char* key : {"add_prefix_space", "trim_offsets", "use_regex"}) section.find(key);
    chain.push_back(std::make_unique<ByteLevelDecoder>());
  } else if (type == "WordPiece") {
    const std::string prefix = section.text("prefix");
    chain.push_back(std::make_unique<WordPieceDecoder>(prefix, section.boolean("cleanup")));
  } else if (type == "Metaspace") {
    chain.push_back(read_metaspace_decoder(section));
  } else if (type == "BPEDecoder") {
    const std::string suffix = section.text("suffix");
    if (suffix.empty()) section.refuse("suffix", "it is not empty");
    chain.push_back(std::make_unique<BpeDecoder>(suffix));
  } else if (type == "ByteFallback") {
    chain.push_back(std::make_unique<ByteFallbackDecoder>());
  } else if (type == "Fuse") {
    chain.push_back(std::make_unique<FuseDecoder>());
  } else if (type == "Strip") {
    const char32_t letter = section.letter("content");
    const uint32_t start = section.number("start"), stop = section.number("stop");
    chain.push_back(std::make_unique<StripDecoder>(letter, start, stop));
  } else if (type == "Replace") {
    chain.push_back(read_replace_decoder(section));
  } else {
    section.refuse("type",
                   "Muster knows the decoders ByteLevel, WordPiece, Metaspace, BPEDecoder, "
                   "ByteFallback, Fuse, Strip, Replace, Sequence",
                   type);
  }
  section.end();
}

}  // namespace

std::string lossy_utf8(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const size_t valid = valid_utf8_prefix(bytes);
    out += bytes.substr(0, valid);
    bytes.remove_prefix(valid);
    if (bytes.empty()) break;
    out += kReplacement;
    // The longest start of a code point: what continuation bytes would make valid.
    size_t bad = 1;
    for (size_t length = std::min<size_t>(3, bytes.size()); length > 1; --length) {
      const std::string start(bytes.substr(0, length));
      const auto completes = [&](std::string_view tail) {
        const std::string whole = start + std::string(tail);
        return valid_utf8_prefix(whole) == whole.size();
      };
      if (completes("\x80") || completes("\xBF") || completes("\x80\x80") ||
          completes("\xBF\xBF")) {
        bad = length;
        break;
      }
    }
    bytes.remove_prefix(bad);
  }
  return out;
}

DecoderChain read_decoders(const FileJson& json, const std::string& where) {
  DecoderChain chain;
  append_decoder(json, where, chain);
  return chain;
}

}  // namespace muster::text
