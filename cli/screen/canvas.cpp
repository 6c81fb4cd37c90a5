#include "cli/screen/canvas.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/base/text.h"
#include "muster/base/text_table.h"

namespace muster::cli {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr std::string_view kCut = "…";

/// One thing to show: its bytes and its columns.
struct Letter {
  std::string bytes;
  size_t columns = 1;
};

/// Bytes of the code point at the front of `text`; 0: it is none.
size_t code_point_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const size_t wanted = first < 0x80             ? 1
                        : (first & 0xE0) == 0xC0 ? 2
                        : (first & 0xF0) == 0xE0 ? 3
                        : (first & 0xF8) == 0xF0 ? 4
                                                 : 0;
  if (wanted == 0 || wanted > text.size()) return 0;
  for (size_t i = 1; i < wanted; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return 0;
  }
  return wanted;
}

std::string escape_of(unsigned char c) {
  if (c == '\n') return "\\n";
  if (c == '\t') return "\\t";
  if (c == '\r') return "\\r";
  constexpr char kDigits[] = "0123456789abcdef";
  return {'\\', 'x', kDigits[c >> 4], kDigits[c & 15]};
}

/// Calls visit(bytes) for each code point, escape or replacement.
template <class Visit>
void each_letter(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const auto first = static_cast<unsigned char>(text[0]);
    const size_t bytes = code_point_bytes(text);
    // The C1 controls are two bytes: 0xC2 and one below 0xA0.
    const bool is_c1 = bytes == 2 && first == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0;
    if (first < 0x20 || first == 0x7F) {
      for (const char c : escape_of(first)) visit(std::string_view(&c, 1));
    } else if (bytes == 0 || is_c1) {
      visit(kReplacement);
    } else {
      visit(text.substr(0, bytes));
    }
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
}

std::vector<Letter> letters_of(std::string_view text) {
  std::vector<Letter> letters;
  each_letter(text, [&](std::string_view bytes) {
    const size_t columns = bytes.size() == 1 ? 1 : columns_of(bytes);
    if (columns == 0 && !letters.empty()) {
      letters.back().bytes += bytes;
    } else if (columns > 0) {
      letters.push_back({std::string(bytes), columns});
    }
  });
  return letters;
}

}  // namespace

Canvas::Canvas(size_t columns, size_t rows)
    : columns_(columns), rows_(rows), cells_(columns * rows) {}

size_t Canvas::put(size_t row, size_t column, std::string_view text, Look look, size_t width) {
  if (row >= rows_ || column >= columns_) return 0;
  const size_t room = std::min(width, columns_ - column);
  std::vector<Letter> letters = letters_of(text);
  size_t wanted = 0;
  for (const Letter& letter : letters) wanted += letter.columns;
  const bool is_cut = wanted > room;
  size_t used = 0;
  const auto set = [&](std::string_view bytes, size_t columns) {
    cell(row, column + used) = {std::string(bytes), look};
    if (columns == 2) cell(row, column + used + 1) = {"", look};
    used += columns;
  };
  for (const Letter& letter : letters) {
    if (used + letter.columns + (is_cut ? 1 : 0) > room) break;
    set(letter.bytes, letter.columns);
  }
  if (is_cut && room > 0) set(kCut, 1);
  return used;
}

void Canvas::clear_row(size_t row, size_t column, Look look) {
  if (row >= rows_) return;
  for (; column < columns_; ++column) cell(row, column) = {" ", look};
}

std::string Canvas::line(size_t row) const {
  std::string text;
  for (size_t column = 0; column < columns_; ++column) text += at(row, column).letter;
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

bool says_too_small(Canvas& canvas, size_t columns, size_t rows) {
  if (canvas.columns() >= columns && canvas.rows() >= rows) return false;
  canvas.put(
      0,
      0,
      concat("too small: ", canvas.columns(), "x", canvas.rows(), ", needs ", columns, "x", rows));
  canvas.put(1, 0, "q quit");
  return true;
}

std::string escaped(std::string_view text) {
  std::string out;
  each_letter(text, [&](std::string_view bytes) { out += bytes; });
  return out;
}

std::string sparkline(const std::vector<double>& values, size_t width) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  return sparkline(values, width, low, high);
}

std::string sparkline(const std::vector<double>& values, size_t width, double low, double high) {
  constexpr std::string_view kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const size_t count = std::min(width, values.size());
  std::string out;
  for (size_t i = 0; i < count; ++i) {
    const double value = values[(i + 1) * values.size() / count - 1];
    if (!std::isfinite(value)) {
      out += "·";
      continue;
    }
    const double range = high / 2 - low / 2;  // high - low may be beyond doubles
    const double share = range > 0 ? (value / 2 - low / 2) / range : 0;
    out += kBlocks[static_cast<int>(std::clamp(share * 8, 0.0, 7.0))];
  }
  return out;
}

}  // namespace muster::cli
