// Columns of text that fit a width, on a canvas.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/screen/canvas.h"

namespace muster::cli {

struct TextCell {
  std::string text;
  Look look = Look::kPlain;
};

struct TextColumn {
  std::string header;
  bool right = false;       ///< numbers
  bool takes_rest = false;  ///< is cut where the others leave too little, at kLeastRest
  int goes = 0;  ///< where that does not do: the column with the most goes first; 0: none
  std::vector<TextCell> cells = {};  ///< row by row
};

inline constexpr size_t kLeastRest = 16;

/// Those that have something in them, as wide as that needs, and fit `width`.
class TextColumns {
 public:
  TextColumns(std::vector<TextColumn> columns, size_t width);

  /// Draws the headers.
  void draw_header(Canvas& canvas, size_t row) const;

  /// Draws row `index` of the cells; a selected one in that look.
  void draw_row(Canvas& canvas, size_t row, size_t index, bool is_selected = false) const;

  size_t rows() const { return rows_; }

 private:
  void put(Canvas& canvas, size_t row, size_t column, const std::string& text, Look look) const;

  std::vector<TextColumn> columns_;
  std::vector<size_t> widths_, starts_;
  size_t rows_ = 0;
};

}  // namespace muster::cli
