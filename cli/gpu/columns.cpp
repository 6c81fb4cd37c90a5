#include "cli/gpu/columns.h"

#include <algorithm>

#include "muster/base/text_table.h"

namespace muster::cli {
namespace {

constexpr size_t kColumnGap = 2;

size_t width_of(const TextColumn& column) {
  size_t width = columns_of(escaped(column.header));
  for (const TextCell& cell : column.cells) width = std::max(width, columns_of(escaped(cell.text)));
  return width;
}

/// What the columns need, where one that is cut counts with the least.
size_t least_width(const std::vector<TextColumn>& columns, const std::vector<size_t>& widths) {
  size_t used = 0;
  for (size_t i = 0; i < columns.size(); ++i) {
    used += i == 0 ? 0 : kColumnGap;
    used += columns[i].takes_rest ? std::min(widths[i], kLeastRest) : widths[i];
  }
  return used;
}

}  // namespace

TextColumns::TextColumns(std::vector<TextColumn> columns, size_t width) {
  for (const TextColumn& column : columns) rows_ = std::max(rows_, column.cells.size());
  std::erase_if(columns, [](const TextColumn& column) {
    return std::ranges::all_of(column.cells, [](const auto& cell) { return cell.text.empty(); });
  });
  for (const TextColumn& column : columns) widths_.push_back(width_of(column));
  while (least_width(columns, widths_) > width) {
    const auto worst = std::ranges::max_element(columns, {}, &TextColumn::goes);
    if (worst == columns.end() || worst->goes == 0) break;
    widths_.erase(widths_.begin() + (worst - columns.begin()));
    columns.erase(worst);
  }
  size_t at = 0;
  for (size_t i = 0; i < columns.size(); ++i) {
    starts_.push_back(at);
    size_t behind = 0;
    for (size_t j = i + 1; j < columns.size(); ++j) behind += kColumnGap + widths_[j];
    if (columns[i].takes_rest && at + widths_[i] + behind > width)
      widths_[i] = std::max(std::min(widths_[i], kLeastRest),
                            width > at + behind ? width - at - behind : size_t{0});
    at += widths_[i] + kColumnGap;
  }
  columns_ = std::move(columns);
}

void TextColumns::put(
    Canvas& canvas, size_t row, size_t column, const std::string& text, Look look) const {
  const size_t wide = std::min(columns_of(escaped(text)), widths_[column]);
  const size_t indent = columns_[column].right ? widths_[column] - wide : 0;
  canvas.put(row, starts_[column] + indent, text, look, widths_[column]);
}

void TextColumns::draw_header(Canvas& canvas, size_t row) const {
  canvas.clear_row(row, 0, Look::kHeader);
  for (size_t i = 0; i < columns_.size(); ++i)
    put(canvas, row, i, columns_[i].header, Look::kHeader);
}

void TextColumns::draw_row(Canvas& canvas, size_t row, size_t index, bool is_selected) const {
  if (is_selected) canvas.clear_row(row, 0, Look::kSelected);
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (index >= columns_[i].cells.size()) continue;
    const TextCell& cell = columns_[i].cells[index];
    put(canvas, row, i, cell.text, is_selected ? Look::kSelected : cell.look);
  }
}

}  // namespace muster::cli
