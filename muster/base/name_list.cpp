#include "muster/base/name_list.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "muster/base/text.h"

namespace muster {
namespace {

constexpr std::string_view kNameBlanks = " \t";

struct QuotedName {
  std::string name;
  size_t end = 0;  // of what it was read from: at a comma, or at the end
};

/// What the text begins with, where that stands in quotes, and nothing else before the next comma.
std::optional<QuotedName> quoted_name(std::string_view text) {
  const size_t begin = text.find_first_not_of(kNameBlanks);
  if (begin == std::string_view::npos || text[begin] != '"') return std::nullopt;
  const size_t behind = behind_quotes(text, begin);
  if (behind == std::string_view::npos) return std::nullopt;
  QuotedName found{.name = {},
                   .end = std::min(text.find_first_not_of(kNameBlanks, behind), text.size())};
  if (found.end < text.size() && text[found.end] != ',') return std::nullopt;
  for (size_t at = begin + 1; at + 1 < behind; ++at) {
    found.name += text[at];
    if (text[at] == '"') ++at;
  }
  return found;
}

}  // namespace

size_t behind_quotes(std::string_view text, size_t at) {
  for (++at; at < text.size(); ++at) {
    if (text[at] != '"') continue;
    if (!text.substr(at + 1).starts_with('"')) return at + 1;
    ++at;
  }
  return std::string_view::npos;
}

std::vector<std::string> names_in(std::string_view text) {
  const bool is_list = text.size() >= 2 && text.front() == '[' && text.back() == ']';
  if (is_list) text = text.substr(1, text.size() - 2);
  std::vector<std::string> names;
  while (true) {
    size_t end = std::min(text.find(','), text.size());
    std::optional<QuotedName> quoted = is_list ? quoted_name(text) : std::nullopt;
    if (quoted) end = quoted->end;
    std::string name = quoted ? std::move(quoted->name) : std::string(trim(text.substr(0, end)));
    if (quoted || !is_list || !name.empty()) names.push_back(std::move(name));
    if (end == text.size()) return names;
    text.remove_prefix(end + 1);
  }
}

std::string name_in(std::string_view text) {
  if (!text.starts_with("[\"")) return std::string(text);
  std::vector<std::string> names = names_in(text);
  return names.size() == 1 ? std::move(names[0]) : std::string(text);
}

std::string name_text(std::string_view name) {
  const bool is_plain = !name.empty() && name.find_first_of("[]") == std::string_view::npos &&
                        names_in(name) == std::vector<std::string>{std::string(name)};
  if (is_plain) return std::string(name);
  std::string text = "[\"";
  for (const char letter : name) text += letter == '"' ? "\"\"" : std::string(1, letter);
  return text + "\"]";
}

}  // namespace muster
