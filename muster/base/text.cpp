#include "muster/base/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace muster {

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t from = text.find_first_not_of(kBlank);
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(kBlank) - from + 1);
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t from = 0;;) {
    const size_t at = text.find(separator, from);
    parts.emplace_back(text.substr(from, at - from));
    if (at == std::string_view::npos) return parts;
    from = at + 1;
  }
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += separator;
    out += parts[i];
  }
  return out;
}

namespace {

template <class Number>
std::optional<Number> parse_whole(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<int64_t> to_int(std::string_view text) { return parse_whole<int64_t>(text); }
std::optional<double> to_double(std::string_view text) { return parse_whole<double>(text); }

std::string shortest(double value) {
  if (std::isnan(value)) return "nan";  // whatever its sign, which says nothing
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

std::string fixed(double value, int digits) {
  if (std::isnan(value)) return "nan";
  std::array<char, 64> buffer;
  const auto length =
      static_cast<size_t>(std::snprintf(buffer.data(), buffer.size(), "%.*f", digits, value));
  if (length < buffer.size()) return {buffer.data(), length};
  std::string text(length + 1, '\0');  // of 1e300, say
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  text.pop_back();
  return text;
}

std::string human_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  // The limits are those of the rounded text: never "1000ms" or "60.0s".
  if (seconds < 0.9995) return fixed(seconds * 1000, 0) + "ms";
  if (seconds < 59.95) return fixed(seconds, 1) + "s";
  if (seconds >= 0x1p53) return fixed(seconds / 3600, 0) + "h";  // no whole number has room for it
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  std::array<char, 32> buffer;
  if (whole < 3600) {
    std::snprintf(buffer.data(), buffer.size(), "%dm%02ds", int(whole / 60), int(whole % 60));
  } else {
    std::snprintf(buffer.data(),
                  buffer.size(),
                  "%lldh%02dm",
                  static_cast<long long>(whole / 3600),
                  int(whole / 60 % 60));
  }
  return buffer.data();
}

std::string precise_duration(double seconds) {
  if (!(seconds >= 0 && seconds < 59.95)) return human_duration(seconds);
  const bool is_short = seconds < 0.9995;
  const double value = is_short ? 1e3 * seconds : seconds;
  const int digits = value < 0.9995 ? 3 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return concat(fixed(value, digits), is_short ? " ms" : " s");
}

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

std::string human_bytes(uint64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1023.5 && unit + 1 < kUnits.size()) value /= 1024, ++unit;
  return fixed(value, unit == 0 || value >= 10 ? 0 : 1) + " " + kUnits[unit];
}

int edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the table: two back (for the swap), one back, current.
  std::vector<int> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates) {
  const std::string* best = nullptr;
  int best_distance = 0;
  bool is_best_longer = false;
  for (const std::string& candidate : candidates) {
    int distance = edit_distance(word, candidate);
    // A word that was cut short ("fashion" for "fashion-mnist") is a likely slip as well, and the
    // likelier one: "wid" is "width" before "id".
    const bool is_longer = word.size() >= 3 && candidate.starts_with(word);
    if (is_longer) distance = std::min(distance, 1);
    const bool is_nearer =
        distance < best_distance || (distance == best_distance && is_longer && !is_best_longer);
    if (best != nullptr && !is_nearer) continue;
    best = &candidate, best_distance = distance, is_best_longer = is_longer;
  }
  const int allowed = std::max<int>(1, static_cast<int>(word.size()) / 3);
  if (best == nullptr || best_distance > allowed) return std::nullopt;
  return *best;
}

std::string suggestion(std::string_view word, std::span<const std::string> candidates) {
  if (const auto near = nearest(word, candidates)) return concat("did you mean \"", *near, "\"?");
  return candidates.empty() ? "" : "known: " + join(candidates, ", ");
}

size_t display_width(std::string_view text) {
  size_t width = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b' && i + 1 < text.size() && text[i + 1] == '[') {
      i += 2;
      while (i < text.size() && (text[i] < '@' || text[i] > '~')) ++i;
    } else if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) {
      ++width;
    }
  }
  return width;
}

std::string wrap(std::string_view text, size_t width, std::string_view indent) {
  std::string out;
  bool is_first = true;
  for (const std::string& line : split(text, '\n')) {
    if (!is_first) out += '\n';
    is_first = false;
    size_t column = 0;
    for (const std::string& word : split(line, ' ')) {
      if (word.empty()) continue;
      const size_t needed = display_width(word) + (column > 0 ? 1 : 0);
      if (column > 0 && indent.size() + column + needed > width) out += '\n', column = 0;
      if (column == 0) {
        out += indent;
        out += word;
        column = display_width(word);
      } else {
        out += ' ' + word;
        column += needed;
      }
    }
  }
  return out;
}

}  // namespace muster
