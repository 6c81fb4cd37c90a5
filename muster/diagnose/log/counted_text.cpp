#include "muster/diagnose/log/counted_text.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "muster/base/text.h"
#include "muster/diagnose/catalogue/fragment_finder.h"

namespace muster::diagnose {
namespace {

/// Words that are counted: the plural of a noun, or one of counting. A rank, a code and a device have
/// numbers of their own.
bool says_what_is_counted(std::string_view words) {
  constexpr std::array<std::string_view, 5> kCounting{"count", "total", "number", "rate", "far"};
  constexpr std::ptrdiff_t kMostWords = 4;
  constexpr size_t kShortest = 4;
  const std::vector<std::string> parts = split(std::string(words), ' ');
  if (std::ranges::count_if(parts, [](const auto& part) { return !part.empty(); }) > kMostWords)
    return false;
  return std::ranges::any_of(parts, [&](const std::string& part) {
    const bool is_plural = part.size() >= kShortest && part.ends_with('s') &&
                           !part.ends_with("ss") && !part.ends_with("us") && part != "this" &&
                           part != "does";
    return is_plural || std::ranges::find(kCounting, part) != kCounting.end();
  });
}

/// "_samples" and " samples" alike, in small letters.
std::string with_blanks(std::string_view text) {
  std::string small = small_letters(text);
  std::ranges::replace(small, '_', ' ');
  std::ranges::replace(small, '-', ' ');
  return small;
}

/// Whether "0" stands there, and no more of a number.
bool is_zero(std::string_view text) {
  return text.starts_with('0') && (text.size() == 1 || (!is_digit(text[1]) && text[1] != '.' &&
                                                        text[1] != 'x' && text[1] != 'X'));
}

/// "0 ", "no " and "0 samples " before what is counted; the number of a rank stands before a verb ("rank 0 failed").
bool is_none_before(std::string_view before, bool is_plural) {
  constexpr size_t kWithin = 40;
  if (before.size() > kWithin) before.remove_prefix(before.size() - kWithin);
  const std::string small = with_blanks(before);
  if (!small.ends_with(' ')) return false;
  const size_t end = small.find_last_not_of(' ');
  if (end == small.npos) return false;
  const std::string_view said = std::string_view(small).substr(0, end + 1);
  for (const std::string_view word : {"no", "without"}) {
    if (said.ends_with(word) &&
        (said.size() == word.size() || said[said.size() - word.size() - 1] == ' '))
      return true;
  }
  const size_t zero = said.find_last_not_of("abcdefghijklmnopqrstuvwxyz ");
  if (zero == said.npos || said[zero] != '0') return false;
  if (zero > 0 && said.substr(zero - 1, 1).find_first_of(" ,;:|([=\t") == said.npos) return false;
  if (zero + 1 < said.size())
    return said[zero + 1] == ' ' && says_what_is_counted(said.substr(zero + 2));
  const size_t ahead = said.substr(0, zero).find_last_not_of(' ');
  return is_plural || ahead == said.npos ||
         std::string_view(",;:|([=").find(said[ahead]) != std::string_view::npos;
}

}  // namespace

bool is_quantity(std::string_view line, size_t begin, size_t end) {
  const bool is_plural = line.substr(end).starts_with('s') || line.substr(end).starts_with('S');
  if (is_none_before(line.substr(0, begin), is_plural)) return true;
  constexpr size_t kWithin = 48;
  const std::string behind = with_blanks(line.substr(end, kWithin));
  const size_t word_end = behind.find_first_not_of("abcdefghijklmnopqrstuvwxyz ");
  if (word_end == behind.npos) return false;
  const bool is_said = behind.find_first_not_of("s ") < word_end;  // "failed samples", not "errors"
  const size_t value = behind.find_first_not_of(":=\"' ", word_end);
  if (value == behind.npos || !is_digit(behind[value])) return false;
  const std::string_view number = std::string_view(behind).substr(value);
  if (is_said) {
    const std::string words =
        with_blanks(line.substr(begin, end - begin)) + behind.substr(0, word_end);
    return value != word_end && is_zero(number) && says_what_is_counted(words);
  }
  const size_t rest = number.find_first_not_of("0123456789");
  if (rest == number.npos || number[rest] != '.') return number.substr(0, rest) == "0";
  return rest + 1 < number.size() && is_digit(number[rest + 1]);
}

bool is_counted_zero(std::string_view line, size_t begin, size_t end) {
  if (begin >= 2 &&
      line.substr(begin - 2, 2) == "0 ") {  // the number, and not that of a rank or a scaler
    const size_t before = line.substr(0, begin - 2).find_last_not_of(' ');
    if (before == line.npos ||
        std::string_view(",;:|([=").find(line[before]) != std::string_view::npos)
      return true;
  }
  std::string rest = small_letters(line.substr(end, 48));
  std::string_view behind = rest;
  const size_t word = behind.find_first_not_of(" _");
  for (const std::string_view counted : {"count",
                                         "iteration",
                                         "error",
                                         "step",
                                         "event",
                                         "failure",
                                         "loss",
                                         "batch",
                                         "value",
                                         "retr",
                                         "kill",
                                         "grad"}) {
    if (word == behind.npos || !behind.substr(word).starts_with(counted)) continue;
    const size_t stop = behind.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", word);
    behind.remove_prefix(stop == behind.npos ? behind.size() : stop);
    break;
  }
  const size_t sign = behind.find_first_not_of(" ");
  if (sign == behind.npos || (behind[sign] != ':' && behind[sign] != '=')) return false;
  const size_t value = behind.find_first_not_of(" ", sign + 1);
  if (value == behind.npos) return false;
  behind.remove_prefix(value);
  if (behind.starts_with("false")) return true;
  return behind[0] == '0' &&
         (behind.size() == 1 || behind[1] == ' ' || behind[1] == ',' || behind[1] == ';');
}

}  // namespace muster::diagnose
