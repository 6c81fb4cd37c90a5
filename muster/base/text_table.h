// Tables of text in psql's grid, as Python's tabulate (0.9) prints them, which fit a terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace muster {

/// Columns that the text takes on a terminal: East Asian wide letters and emoji take two, combining
/// marks none (Unicode 15, EastAsianWidth W and F by ranges).
size_t columns_of(std::string_view text);

/// Without control characters and broken UTF-8, each of which becomes '?'.
std::string printable(std::string_view text);

/// At most `columns` wide: "...ge-name_00003" keeps the tail, as Ray does.
std::string keep_tail(std::string_view text, size_t columns);

/// Lines of at most `columns`, broken at blanks where there are any, all but the first indented.
/// Each ends in "\n".
std::string fold(std::string_view text, size_t columns, size_t indent = 2);

/// Nothing, a whole number, a number, or a text.
using Cell = std::variant<std::monostate, int64_t, double, std::string>;

struct Column {
  std::string header;
  std::vector<Cell> cells = {};
  bool optional = false;  ///< left out first where the width does not do
};

/// The grid, lines ended by "\n", none wider than `width`. Numbers have six digits and stand with
/// their points below each other, texts and headers have at most 20 columns. What does not fit is
/// made smaller in this order: padding goes; optional columns go, from the left; digits and texts
/// get less; the columns go on in further grids below, each with the first column again.
std::string grid(std::vector<Column> columns, size_t width);

}  // namespace muster
