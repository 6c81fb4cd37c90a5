// A screen of text as data, so that what is drawn can be tested without a terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::cli {

/// What text means, not how it looks: that is the terminal's, which may have no colours.
enum class Look : uint8_t {
  kPlain,
  kTitle,
  kDim,
  kHeader,    ///< of a table
  kSelected,  ///< the row that keys act on
  kRunning,
  kGood,
  kWarning,
  kBad,
};

/// Rows of cells. A letter is one code point with its combining marks; a wide one takes two cells,
/// of which the second is empty. Control characters are shown escaped, as \n, \x1b, and what is
/// no UTF-8 as U+FFFD: a name must not move the cursor.
class Canvas {
 public:
  struct Cell {
    std::string letter = " ";
    Look look = Look::kPlain;
    friend bool operator==(const Cell&, const Cell&) = default;
  };

  Canvas(size_t columns, size_t rows);

  size_t columns() const { return columns_; }
  size_t rows() const { return rows_; }
  const Cell& at(size_t row, size_t column) const { return cells_[row * columns_ + column]; }

  /// Writes from there to at most `width` columns, or the row's end; cut text ends in "…". Returns
  /// the columns that were taken. Nothing happens outside of the canvas.
  size_t put(size_t row,
             size_t column,
             std::string_view text,
             Look look = Look::kPlain,
             size_t width = SIZE_MAX);

  /// Blanks from there on.
  void clear_row(size_t row, size_t column = 0, Look look = Look::kPlain);

  /// The row's text without blanks at its end.
  std::string line(size_t row) const;

 private:
  Cell& cell(size_t row, size_t column) { return cells_[row * columns_ + column]; }

  size_t columns_, rows_;
  std::vector<Cell> cells_;
};

/// Whether it has fewer columns or rows than a view needs; then it says so, and how to leave.
bool says_too_small(Canvas& canvas, size_t columns, size_t rows);

/// As a Canvas shows it.
std::string escaped(std::string_view text);

/// `values` as blocks of eight heights, oldest first, in at most `width` columns, each of which shows
/// the last value of its share; "·" where that is not finite. Pure.
std::string sparkline(const std::vector<double>& values, size_t width);

/// The same with the lowest block for `low` and less, the highest for `high` and more.
std::string sparkline(const std::vector<double>& values, size_t width, double low, double high);

}  // namespace muster::cli
