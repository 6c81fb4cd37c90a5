#include "muster/diagnose/log/message_words.h"

#include <algorithm>
#include <array>
#include <span>

#include "muster/base/text.h"
#include "muster/diagnose/catalogue/fragment_finder.h"

namespace muster::diagnose {
namespace {

constexpr size_t kShortestWord = 2, kLongestWord = 32, kShortestPlural = 5;
constexpr std::array<std::string_view, 7> kNumbers{"9", "11", "15", "134", "137", "139", "143"};
constexpr std::array<std::string_view, 18> kCommonest{"the",
                                                      "an",
                                                      "of",
                                                      "to",
                                                      "in",
                                                      "is",
                                                      "it",
                                                      "and",
                                                      "for",
                                                      "on",
                                                      "at",
                                                      "by",
                                                      "with",
                                                      "this",
                                                      "that",
                                                      "be",
                                                      "was",
                                                      "are"};

bool is_small(char c) { return c >= 'a' && c <= 'z'; }
bool is_capital(char c) { return c >= 'A' && c <= 'Z'; }
/// Any byte of a letter that is not ASCII counts.
bool is_letter(char c) {
  return is_small(c) || is_capital(c) || static_cast<unsigned char>(c) >= 0x80;
}

bool is_one_of(std::string_view word, std::span<const std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

/// A run of letters up to a capital behind a small letter ("OutOfMemory" is three), or of digits.
size_t end_of_word(std::string_view text, size_t at) {
  const bool digits = is_digit(text[at]);
  size_t end = at + 1;
  while (end < text.size() && (digits ? is_digit(text[end]) : is_letter(text[end]))) {
    if (is_capital(text[end]) && is_small(text[end - 1])) break;
    ++end;
  }
  return end;
}

/// As it is kept; empty if it says nothing.
std::string kept_word(std::string_view text) {
  if (is_digit(text[0])) return std::string(is_one_of(text, kNumbers) ? text : std::string_view());
  std::string word = small_letters(text);
  if (word.size() < kShortestWord || word.size() > kLongestWord || is_one_of(word, kCommonest))
    return {};
  if (word.size() >= kShortestPlural && word.ends_with('s') && !word.ends_with("ss"))
    word.pop_back();
  return word;
}

}  // namespace

void add_message_words(std::string_view line, std::set<std::string>& words) {
  std::string before;
  for (size_t begin = 0; begin < line.size();) {
    const size_t blank = std::min(line.find_first_of(" \t\r", begin), line.size());
    std::string_view chunk = line.substr(begin, blank - begin);
    begin = blank + 1;
    if (const size_t slash = chunk.find_last_of("/\\"); slash != chunk.npos)
      chunk.remove_prefix(slash + 1);
    for (size_t at = 0; at < chunk.size();) {
      if (!is_letter(chunk[at]) && !is_digit(chunk[at])) {
        ++at;
        continue;
      }
      const size_t end = end_of_word(chunk, at);
      std::string word = kept_word(chunk.substr(at, end - at));
      at = end;
      if (word.empty()) continue;
      if (!before.empty()) words.insert(concat(before, '_', word));
      words.insert(word);
      before = std::move(word);
    }
  }
}

}  // namespace muster::diagnose
