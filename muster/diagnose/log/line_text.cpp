#include "muster/diagnose/log/line_text.h"

#include <algorithm>
#include <array>

#include "muster/base/text.h"
#include "muster/base/text_table.h"
#include "muster/diagnose/catalogue/fragment_finder.h"
#include "muster/diagnose/log/counted_text.h"
#include "muster/diagnose/log/log_diagnosis.h"

namespace muster::diagnose {
namespace {

constexpr char kEscape = '\x1b';
constexpr size_t kRankDigits = 6;

/// Where the escape sequence at `at` ends.
size_t end_of_escape(std::string_view line, size_t at) {
  if (at + 1 >= line.size()) return line.size();
  const char kind = line[at + 1];
  if (kind == '[') {  // parameters and intermediates, then one byte from @ to ~
    const size_t end = line.find_first_not_of("0123456789:;<=>? !\"#$%&'()*+,-./", at + 2);
    return end == std::string_view::npos ? line.size() : end + 1;
  }
  if (kind != ']') return at + 2;
  const size_t bell = line.find('\a', at), string_end = line.find("\x1b\\", at + 2);
  if (bell == std::string_view::npos && string_end == std::string_view::npos) return line.size();
  return bell < string_end ? bell + 1 : string_end + 2;
}

bool is_word_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

/// The number at `at`, which moves behind it; nothing if there is none or it is too long.
std::optional<int64_t> number_at(std::string_view text, size_t& at) {
  size_t end = at;
  while (end < text.size() && is_digit(text[end])) ++end;
  if (end == at || end - at > kRankDigits) return std::nullopt;
  const auto number = to_int(text.substr(at, end - at));
  at = end;
  return number;
}

/// "rank1]", "default1]", " 1]", "Rank 1]" behind a bracket; `at` moves behind the closing one.
std::optional<int64_t> rank_in_brackets(std::string_view text, size_t& at) {
  size_t here = at;
  while (here < text.size() && (is_word_letter(text[here]) || text[here] == ' ')) ++here;
  const auto rank = number_at(text, here);
  if (!rank || here >= text.size()) return std::nullopt;
  if (text[here] == ',') {  // mpirun's [job,rank]
    ++here;
    const auto second = number_at(text, here);
    if (!second || here >= text.size() || text[here] != ']') return std::nullopt;
    at = here + 1;
    return second;
  }
  if (text[here] != ']') return std::nullopt;
  at = here + 1;
  return rank;
}

/// One prefix at `at`, which moves behind it and the blanks that follow.
std::optional<int64_t> one_prefix(std::string_view line, size_t& at) {
  size_t here = at;
  std::optional<int64_t> rank;
  if (here < line.size() && line[here] == '[') {
    rank = rank_in_brackets(line, ++here);
    if (rank && line.substr(here).starts_with("<std")) {
      const size_t close = line.find('>', here);
      if (close != std::string_view::npos) here = close + 1;
    }
    if (rank && here < line.size() && line[here] == ':') ++here;
  } else if (here == 0 && line.size() > here && is_digit(line[here])) {
    rank = number_at(line, here);
    if (!line.substr(here).starts_with(": ")) return std::nullopt;
    ++here;
  }
  if (!rank) return std::nullopt;
  while (here < line.size() && line[here] == ' ') ++here;
  at = here;
  return rank;
}

/// Of c10d's own lines: "[E ProcessGroupNCCL.cpp:607] [Rank 4] …", "… PG GUID 0(default_pg) Rank 1]".
std::optional<int64_t> rank_within(std::string_view line) {
  constexpr size_t kWithin = 160;
  const std::string_view head = line.substr(0, kWithin);
  for (size_t at = head.find("Rank "); at != std::string_view::npos; at = head.find("Rank ", at)) {
    at += 5;
    size_t end = at;
    if (const auto rank = number_at(head, end); rank && end < head.size() && head[end] == ']')
      return rank;
  }
  return std::nullopt;
}

}  // namespace

std::string without_escapes(std::string_view line) {
  std::string out;
  for (size_t at = 0; at < line.size();) {
    const size_t escape = line.find(kEscape, at);
    out += line.substr(at, escape == std::string_view::npos ? escape : escape - at);
    if (escape == std::string_view::npos) break;
    at = end_of_escape(line, escape);
  }
  return out;
}

std::string shown_text(std::string_view line) {
  std::string text = printable(trim(line.substr(0, 2 * kMostTextBytes)));
  if (text.size() <= kMostTextBytes) return text;
  size_t end = kMostTextBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  text.resize(end);
  return text + "…";
}

std::string with_plain_quotes(std::string_view line) {
  std::string out;
  for (size_t at = 0; at < line.size(); ++at) {
    const std::string_view mark = line.substr(at, 3);
    const bool is_single = mark == "\xe2\x80\x98" || mark == "\xe2\x80\x99";
    const bool is_double = mark == "\xe2\x80\x9c" || mark == "\xe2\x80\x9d";
    out += is_single ? '\'' : is_double ? '"' : line[at];
    if (is_single || is_double) at += 2;
  }
  return out;
}

LinePrefix line_prefix(std::string_view line) {
  LinePrefix prefix;
  while (const auto rank = one_prefix(line, prefix.length)) prefix.rank = rank;
  if (!prefix.rank) prefix.rank = rank_within(line.substr(prefix.length));
  return prefix;
}

std::string_view without_prefix(std::string_view line) {
  size_t length = 0;
  while (one_prefix(line, length)) continue;
  return line.substr(length);
}

bool is_warning_line(std::string_view line) {
  const std::string_view text = line.substr(line_prefix(line).length);
  if ((text.starts_with("[W") || text.starts_with("[I")) && text.size() > 2 &&
      (text[2] == ' ' || is_digit(text[2])))
    return true;
  // what CMake looks for and does without, unless it says how that ended
  if (text.starts_with("-- ")) return text.find("errors occurred") == text.npos;
  // glog's and absl's warnings, and what they only note
  if (text.size() > 4 && (text[0] == 'W' || text[0] == 'I') &&
      std::all_of(&text[1], &text[5], is_digit))
    return true;
  constexpr std::array<std::string_view, 10> kWords{"WARNING",
                                                    // its monitor, without which NCCL goes on
                                                    "ras/client_support.cc",
                                                    ": W tensorflow/",
                                                    "NCCL INFO",
                                                    "UserWarning:",
                                                    "FutureWarning:",
                                                    "RuntimeWarning:",
                                                    "Warning:",
                                                    "[WARN",
                                                    // memory::Guard, which has mended it
                                                    "the step is made again"};
  // A level stands before what is said; behind it, an error may give a warning of its own.
  constexpr size_t kLevelWithin = 120;
  return std::ranges::any_of(kWords, [&](std::string_view word) {
    const size_t at = text.find(word);
    return at != std::string_view::npos && (word != "WARNING" || at < kLevelWithin);
  });
}

bool tells_what_goes_well(std::string_view line) {
  const size_t begin = line.find_first_not_of(' ');
  if (begin != line.npos && line.substr(begin).starts_with("Start ")) {  // CTest's "Start 12: "
    const size_t behind = line.find_first_not_of("0123456789 ", begin + 6);
    if (behind != line.npos && line[behind] == ':') return true;
  }
  // TAP's "ok 12 - ", and the name of a test by itself, as pytest lists those that warned
  if (line.size() > 3 && line.starts_with("ok ") && is_digit(line[3])) return true;
  if (line.find("::test") != line.npos && line.find("FAIL") == line.npos &&
      line.find("ERROR") == line.npos && line.find("Error") == line.npos)
    return true;
  for (const std::string_view good : {" OK ]",
                                      "[ RUN ",
                                      "PASSED",
                                      "..   Passed ",
                                      "... Passed ",
                                      ") ... ok",  // Python's unittest
                                      ") ... skipped",
                                      ") ... expected failure",
                                      "] Building C",
                                      "] Linking C"}) {
    if (line.find(good) != line.npos) return true;
  }
  return false;
}

namespace {

/// Whether "nan" or "inf" stands in the line as a value.
bool has_value_without_number(std::string_view line) {
  const std::string small = small_letters(line);
  for (const std::string_view word : {"nan", "inf"}) {
    for (size_t at = small.find(word); at != small.npos; at = small.find(word, at + 3)) {
      const bool begins = at == 0 || !is_word_letter(small[at - 1]);
      if (begins && (at + 3 == small.size() || !is_word_letter(small[at + 3]))) return true;
    }
  }
  return false;
}

/// A measure of one class, before its value: "class out_of_memory AP 0.33".
bool names_measure_of_class(std::string_view line) {
  for (const std::string_view name :
       {" AP ", " AP50 ", " mAP ", " IoU ", " F1 ", " precision ", " recall ", " Dice ", " AUC "}) {
    const size_t at = line.find(name);
    if (at != line.npos && at + name.size() < line.size() && is_digit(line[at + name.size()]))
      return true;
  }
  return false;
}

/// Numbers from 0 to 1 with a point.
int count_fractions(std::string_view line) {
  int count = 0;
  for (size_t point = line.find('.'); point != line.npos; point = line.find('.', point + 1)) {
    const bool is_small = point > 0 && (line[point - 1] == '0' || line[point - 1] == '1');
    const bool begins = point == 1 || (point > 1 && !is_digit(line[point - 2]) &&
                                       !is_word_letter(line[point - 2]) && line[point - 2] != '.' &&
                                       line[point - 2] != '-');
    size_t end = point + 1;
    while (end < line.size() && is_digit(line[end])) ++end;
    const bool ends = end == line.size() || (!is_word_letter(line[end]) && line[end] != '.');
    count += is_small && begins && ends && end > point + 1 ? 1 : 0;
  }
  return count;
}

}  // namespace

bool is_row_of_measures(std::string_view line) {
  const size_t last = line.find_last_not_of(" |)%*\t");
  if (last == line.npos || !is_digit(line[last])) return false;
  if (count_fractions(line) < (names_measure_of_class(line) ? 1 : 2)) return false;
  for (const std::string_view command : {".py", "--", "core dumped", "pid"}) {
    if (line.find(command) != line.npos) return false;
  }
  return !speaks_of_failure(line) && !has_value_without_number(line);
}

std::string_view measure_that_is_nan(std::string_view line) {
  const std::string small = small_letters(line);
  for (size_t at = small.find("nan"); at != small.npos; at = small.find("nan", at + 3)) {
    if (at + 3 < small.size() && is_word_letter(small[at + 3])) continue;
    const size_t sign = line.substr(0, at).find_last_not_of(" :=\"'");
    if (sign == line.npos || sign + 1 == at) continue;
    const bool is_signed = line.substr(sign, at - sign).find_first_of(":=") != line.npos;
    if (!is_word_letter(line[sign]) && !(is_digit(line[sign]) && is_signed)) continue;
    size_t begin = sign;
    while (begin > 0 && (is_word_letter(line[begin - 1]) || is_digit(line[begin - 1]))) --begin;
    return line.substr(begin, at - begin);
  }
  return {};
}

bool is_finite_again(std::string_view line, std::string_view measure) {
  for (const std::string_view so_far : {"best", "Best", "min", "Min", "last", "Last", "previous"}) {
    if (line.find(so_far) != line.npos) return false;
  }
  if (has_value_without_number(line)) return false;
  for (size_t at = line.find(measure); at != line.npos; at = line.find(measure, at + 1)) {
    const bool begins = at == 0 || !(is_word_letter(line[at - 1]) || is_digit(line[at - 1]));
    const size_t value = line.find_first_not_of(' ', at + measure.size());
    if (begins && value != line.npos && (is_digit(line[value]) || line[value] == '-')) return true;
  }
  return false;
}

std::optional<int64_t> glog_time(std::string_view line) {
  line.remove_prefix(line_prefix(line).length);
  if (line.starts_with('[')) line.remove_prefix(1);
  if (line.empty() || std::string_view("IWEF").find(line[0]) == std::string_view::npos)
    return std::nullopt;
  size_t at = 1;
  const auto day =
      number_at(line, at);  // month and day: c10d writes "626", Python's logging "0626"
  if (!day || at < 4 || at >= line.size() || line[at] != ' ') return std::nullopt;
  int64_t time = *day / 100 * 31 + *day % 100;
  for (const int64_t in_one : {24, 60, 60}) {
    const auto part = number_at(line, ++at);
    if (!part || *part >= in_one) return std::nullopt;
    time = time * in_one + *part;
    if (at >= line.size() || (line[at] != ':' && line[at] != '.')) return std::nullopt;
  }
  constexpr size_t kMicroDigits = 6;
  for (size_t digit = 1; digit <= kMicroDigits; ++digit) {
    const char here = at + digit < line.size() ? line[at + digit] : ' ';
    if (!is_digit(here) && digit == 1) return std::nullopt;
    time = time * 10 + (is_digit(here) ? here - '0' : 0);
    if (!is_digit(here)) line = {};
  }
  return time;
}

bool speaks_of_failure(std::string_view line) {
  if (tells_what_goes_well(line)) return false;
  constexpr std::array<std::string_view, 15> kWords{"Error",
                                                    "error:",
                                                    "ERROR",
                                                    // the names of levels: spdlog's, logrus's
                                                    "[error]",
                                                    "[critical]",
                                                    "level=error",
                                                    "what():",
                                                    "xception",
                                                    "FATAL",
                                                    "atal error",
                                                    "Aborted",
                                                    "abort",
                                                    "failed",
                                                    "ailure",
                                                    "ssertion"};
  return std::ranges::any_of(kWords, [&](std::string_view word) {
    for (size_t at = line.find(word); at != line.npos; at = line.find(word, at + word.size())) {
      if (!is_quantity(line, at, at + word.size())) return true;
    }
    return false;
  });
}

bool announces_error(std::string_view line) {
  const size_t end = line.find_last_not_of(" \t");
  if (end == line.npos || line[end] != ':') return false;
  line = line.substr(0, end + 1);
  return line.ends_with("what():") || line.ends_with("Error:");
}

}  // namespace muster::diagnose
