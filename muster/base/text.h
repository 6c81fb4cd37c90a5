// Small text tools. g++ 12 has no <format>, and LibTorch's fmt shadows Debian's, so neither appears
// in a header.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

/// concat("rank ", 3, " of ", 4) == "rank 3 of 4". Anything with operator<< goes.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

std::string_view trim(std::string_view text);
std::vector<std::string> split(std::string_view text, char separator);
std::string join(std::span<const std::string> parts, std::string_view separator);

/// The whole text as a number, or nothing: no leading blanks, no trailing letters, no overflow.
std::optional<int64_t> to_int(std::string_view text);
std::optional<double> to_double(std::string_view text);

/// A double with the fewest digits that read back as the same value.
std::string shortest(double value);

/// A double with `digits` after the point: fixed(0.91234, 4) == "0.9123".
std::string fixed(double value, int digits);

/// "1h04m", "3m07s", "12.3s", "45ms".
std::string human_duration(double seconds);
/// To three digits below a minute, as of a step and what it is made of: "9.31 ms", "1.25 s", "3m07s".
std::string precise_duration(double seconds);

/// 0 to 9, in any locale.
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Up to its first line end: an error's words without its hint.
std::string first_line(std::string_view text);

/// "553 MiB", "1.2 GiB", "17 B".
std::string human_bytes(uint64_t bytes);

/// Steps to turn one word into the other: insert, delete, replace, swap of neighbours.
/// Source: Damerau 1964, restricted ("optimal string alignment") form.
int edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `word` if it is near enough to be a slip of the hand, else nothing.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);

/// "did you mean \"asha\"?" or, with nothing near, "known: asha, fifo". For the hint of an error.
std::string suggestion(std::string_view word, std::span<const std::string> candidates);

/// Columns that `text` takes on a terminal: UTF-8 code points, escape sequences not counted. No
/// double-width letters.
size_t display_width(std::string_view text);

/// Breaks at blanks so that no line is longer than `width` (a longer word stays whole). Keeps line
/// ends of the text.
std::string wrap(std::string_view text, size_t width, std::string_view indent = "");

}  // namespace muster
