#include "muster/text/vocab/vocab_file.h"

#include <optional>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/text/unicode/properties.h"
#include "muster/text/unicode/utf8.h"

namespace muster::text {
namespace {

constexpr std::string_view kVocabTitle = "muster vocabulary 1";

/// Lines one by one, with their number for errors.
class LineReader {
 public:
  LineReader(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  bool done() const { return at_ == text_.size(); }

  /// The next line, without its newline.
  std::string_view next(bool newline_needed = true) {
    ++number_;
    if (done()) refuse("the file goes on", "its end");
    const size_t end = text_.find('\n', at_);
    if (end == std::string_view::npos && newline_needed)
      refuse("a line ends with a newline", text_.substr(at_));
    const size_t length = std::min(end, text_.size()) - at_;
    const std::string_view line = text_.substr(at_, length);
    at_ = std::min(text_.size(), at_ + length + 1);
    return line;
  }

  [[noreturn]] void refuse(std::string rule, std::string_view value) const {
    throw environment_error({.refused = concat(name_, ":", number_),
                             .rule = std::move(rule),
                             .value = std::string(value.substr(0, 80))});
  }

 private:
  std::string_view text_, name_;
  size_t at_ = 0;
  int64_t number_ = 0;
};

void append_escaped(std::string& out, std::string_view token) {
  for (const char c : token) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\\') {
      out += "\\\\";
    } else {
      out += c;
    }
  }
}

std::string unescaped(std::string_view line, const LineReader& lines) {
  std::string token;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\r') lines.refuse("a carriage return in a token is written \\r", line);
    if (line[i] != '\\') {
      token += line[i];
      continue;
    }
    const char escaped = ++i < line.size() ? line[i] : '\0';
    if (escaped != 'n' && escaped != 'r' && escaped != '\\')
      lines.refuse("a backslash is followed by n, r or a backslash", line);
    token += escaped == 'n' ? '\n' : escaped == 'r' ? '\r' : '\\';
  }
  return token;
}

std::string_view value_behind(std::string_view key, LineReader& lines) {
  const std::string_view line = lines.next();
  if (line.size() <= key.size() || line.substr(0, key.size()) != key || line[key.size()] != ' ')
    lines.refuse(concat("this line is \"", key, " …\""), line);
  return line.substr(key.size() + 1);
}

void append_from(Vocab& vocab, std::string_view token, const LineReader& lines) {
  if (valid_utf8_prefix(token) != token.size()) lines.refuse("a token is UTF-8", "other bytes");
  if (const auto id = vocab.find(token))
    lines.refuse(concat("each token is there once, and this one has the id ", *id), token);
  vocab.append_token(token);
}

}  // namespace

std::string vocab_text(const Vocab& vocab) {
  const std::optional<int64_t> index = vocab.default_index();
  std::string out = concat(kVocabTitle,
                           "\ndefault_index ",
                           index ? std::to_string(*index) : "none",
                           "\ntokens ",
                           vocab.size(),
                           "\n");
  for (const std::string& token : vocab.get_itos()) {
    append_escaped(out, token);
    out += '\n';
  }
  return out;
}

Vocab parse_vocab(std::string_view text, std::string_view name) {
  LineReader lines(text, name);
  if (const std::string_view title = lines.next(); title != kVocabTitle)
    lines.refuse(concat("a vocabulary begins with \"", kVocabTitle, "\""), title);
  Vocab vocab;
  const std::string_view index = value_behind("default_index", lines);
  if (index != "none") {
    const std::optional<int64_t> number = to_int(index);
    if (!number) lines.refuse("the default index is a whole number or none", index);
    vocab.set_default_index(number);
  }
  const std::string_view count = value_behind("tokens", lines);
  const std::optional<int64_t> tokens = to_int(count);
  if (!tokens || *tokens < 0) lines.refuse("the number of tokens is a whole number", count);
  for (int64_t id = 0; id < *tokens; ++id)
    append_from(vocab, unescaped(lines.next(), lines), lines);
  if (!lines.done()) lines.refuse(concat("the file ends after ", *tokens, " tokens"), "more lines");
  return vocab;
}

Vocab parse_word_list(std::string_view text, std::string_view name) {
  LineReader lines(text, name);
  Vocab vocab;
  while (!lines.done()) {
    std::string_view line = lines.next(false);
    if (valid_utf8_prefix(line) != line.size()) lines.refuse("a token is UTF-8", "other bytes");
    while (!line.empty() && is_white_space(last_code_point(line).value))
      line.remove_suffix(last_code_point(line).bytes);
    if (line.empty()) lines.refuse("each line has a token", "an empty line");
    append_from(vocab, line, lines);
  }
  return vocab;
}

void save_vocab(const std::filesystem::path& path, const Vocab& vocab) {
  write_file_atomic(path, vocab_text(vocab));
}

Vocab load_vocab(const std::filesystem::path& path) {
  return parse_vocab(read_file(path), path.string());
}

Vocab load_word_list(const std::filesystem::path& path) {
  return parse_word_list(read_file(path), path.string());
}

}  // namespace muster::text
