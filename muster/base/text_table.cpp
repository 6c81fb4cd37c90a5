#include "muster/base/text_table.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <utility>

namespace muster {
namespace {

struct Range {
  uint32_t first, last;
};

constexpr Range kWide[] = {
    {0x1100, 0x115F},   {0x231A, 0x231B},   {0x23E9, 0x23EC},   {0x2614, 0x2615},
    {0x2705, 0x2705},   {0x274C, 0x274C},   {0x2E80, 0x303E},   {0x3041, 0x33FF},
    {0x3400, 0x4DBF},   {0x4E00, 0xA4CF},   {0xA960, 0xA97C},   {0xAC00, 0xD7A3},
    {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},
    {0x16FE0, 0x18CFF}, {0x1AFF0, 0x1B2FF}, {0x1F18E, 0x1F19A}, {0x1F200, 0x1F64F},
    {0x1F680, 0x1F6FC}, {0x1F7E0, 0x1F7F0}, {0x1F90C, 0x1FAFF}, {0x20000, 0x3FFFD}};
constexpr Range kNone[] = {{0x0300, 0x036F},
                           {0x0483, 0x0489},
                           {0x0591, 0x05BD},
                           {0x1AB0, 0x1AFF},
                           {0x1DC0, 0x1DFF},
                           {0x200B, 0x200F},
                           {0x20D0, 0x20FF},
                           {0xFE00, 0xFE0F},
                           {0xFE20, 0xFE2F},
                           {0xE0100, 0xE01EF}};

bool is_in(std::span<const Range> ranges, uint32_t letter) {
  const auto at = std::ranges::upper_bound(ranges, letter, {}, &Range::first);
  return at != ranges.begin() && letter <= std::prev(at)->last;
}

size_t width_of(uint32_t letter) {
  if (letter < 0x300) return 1;
  if (is_in(kNone, letter)) return 0;
  return is_in(kWide, letter) ? 2 : 1;
}

struct Letter {
  uint32_t code;
  size_t bytes;
};

/// The code point at the start of `text`; nothing if that is no well-formed UTF-8.
std::optional<Letter> first_letter(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return Letter{lead, 1};
  const size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return std::nullopt;
  uint32_t code = lead & (0x7Fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return std::nullopt;
    code = code << 6 | (byte(i) & 0x3F);
  }
  constexpr std::array<uint32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[bytes] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
    return std::nullopt;
  return Letter{code, bytes};
}

Letter letter_or_byte(std::string_view text) { return first_letter(text).value_or(Letter{'?', 1}); }

/// The bytes of the longest start of `text` that is at most `columns` wide.
size_t bytes_within(std::string_view text, size_t columns) {
  size_t bytes = 0, used = 0;
  while (bytes < text.size()) {
    const Letter letter = letter_or_byte(text.substr(bytes));
    used += width_of(letter.code);
    if (used > columns) break;
    bytes += letter.bytes;
  }
  return bytes;
}

// ---- Grids ----

/// How much room a grid gives to its parts.
struct Room {
  size_t text = 20;         ///< the widest text, number or header, in columns
  int digits = 6;           ///< significant ones
  size_t header_extra = 2;  ///< a column is at least this much wider than its header
  bool hard = false;        ///< also for numbers, which lose digits and do not stand by points
};
constexpr Room kAll{}, kDense{.header_extra = 0};
constexpr Room kSmaller[] = {{.text = 16, .digits = 5, .header_extra = 0}, {12, 4, 0}};

/// A column as text: all lines have the same width.
struct Rendered {
  std::string header;
  std::vector<std::string> cells = {};
  size_t width = 0;
};

bool is_number(const Cell& cell) { return cell.index() == 1 || cell.index() == 2; }

std::string number_text(double value, int digits) {
  std::array<char, 40> buffer;
  std::snprintf(buffer.data(), buffer.size(), "%.*g", digits, value);
  return buffer.data();
}

/// Letters behind the point (of "2.5e-05": five), or -1.
int after_point(std::string_view number) {
  size_t at = number.rfind('.');
  if (at == std::string_view::npos) at = number.rfind('e');
  return at == std::string_view::npos ? -1 : static_cast<int>(number.size() - at - 1);
}

/// A number in few columns: with as many digits as there is room for.
std::string short_number(double value, const Room& room) {
  std::string text;
  for (int digits = room.digits; digits > 0; --digits) {
    text = number_text(value, digits);
    if (text.size() <= room.text) return text;
  }
  std::array<char, 16> buffer;
  std::snprintf(buffer.data(), buffer.size(), "%.0e", value);
  return keep_tail(buffer.data(), room.text);
}

std::string cell_text(const Cell& cell, bool with_fractions, const Room& room) {
  if (cell.index() == 0) return "";
  if (room.hard && with_fractions) {
    const auto* whole = std::get_if<int64_t>(&cell);
    return short_number(whole ? static_cast<double>(*whole) : std::get<double>(cell), room);
  }
  if (const auto* whole = std::get_if<int64_t>(&cell)) {
    return with_fractions ? number_text(static_cast<double>(*whole), room.digits)
                          : std::to_string(*whole);
  }
  if (const auto* number = std::get_if<double>(&cell)) return number_text(*number, room.digits);
  return keep_tail(printable(std::get<std::string>(cell)), room.text);
}

std::string padded(const std::string& text, size_t width, bool right) {
  const std::string blanks(width - std::min(width, columns_of(text)), ' ');
  return right ? blanks + text : text + blanks;
}

Rendered render(const Column& column, const Room& room) {
  const auto& cells = column.cells;
  const bool texts = std::ranges::any_of(cells, [](const Cell& cell) { return cell.index() == 3; });
  const bool numbers = !texts && std::ranges::any_of(cells, &is_number);
  const bool fractions =
      std::ranges::any_of(cells, [](const Cell& cell) { return cell.index() == 2; });
  Rendered out{.header = keep_tail(printable(column.header), room.text)};
  int points = -1;
  for (const Cell& cell : cells) {
    out.cells.push_back(cell_text(cell, numbers && fractions, room));
    if (numbers && fractions && !room.hard)
      points = std::max(points, after_point(out.cells.back()));
  }
  out.width = columns_of(out.header) + room.header_extra;
  for (std::string& text : out.cells) {
    // As tabulate: numbers get blanks behind them so that their points stand below each other.
    if (points >= 0) text.append(static_cast<size_t>(points - after_point(text)), ' ');
    if (room.hard) text = keep_tail(text, room.text);  // a whole number
    out.width = std::max(out.width, columns_of(text));
  }
  for (std::string& text : out.cells) text = padded(text, out.width, numbers);
  out.header = padded(out.header, out.width, numbers);
  return out;
}

size_t width_of(std::span<const Rendered> columns) {
  size_t width = 1;
  for (const Rendered& column : columns) width += column.width + 3;
  return width;
}

std::string rule(std::span<const Rendered> columns, char end) {
  std::string out(1, end);
  for (size_t i = 0; i < columns.size(); ++i) {
    out.append(columns[i].width + 2, '-');
    out += i + 1 < columns.size() ? '+' : end;
  }
  return out + '\n';
}

std::string draw(std::span<const Rendered> columns) {
  std::string out = rule(columns, '+') + '|';
  for (const Rendered& column : columns) out += ' ' + column.header + " |";
  out += '\n' + rule(columns, '|');
  for (size_t row = 0; row < columns.front().cells.size(); ++row) {
    out += '|';
    for (const Rendered& column : columns) out += ' ' + column.cells[row] + " |";
    out += '\n';
  }
  return out + rule(columns, '+');
}

std::vector<Rendered> render_all(std::span<const Column> columns, const Room& room) {
  std::vector<Rendered> out;
  for (const Column& column : columns) out.push_back(render(column, room));
  return out;
}

/// Several grids below each other, each with the first column.
std::string in_pieces(std::span<const Column> columns, size_t width) {
  constexpr size_t kFrame = 7;  // "| " + " | " + " |"
  const size_t inner = width - kFrame;
  Room room = kSmaller[std::size(kSmaller) - 1];
  room.hard = true;
  const Room first_room{std::min(room.text, inner / 2), room.digits, 0, true};
  const Rendered first = render(columns.front(), first_room);
  room.text = std::min(room.text, inner - std::min(inner, first.width));
  std::string out;
  std::vector<Rendered> piece = {first};
  for (const Column& column : columns.subspan(1)) {
    Rendered next = render(column, room);
    if (piece.size() > 1 && width_of(piece) + next.width + 3 > width) {
      out += draw(piece);
      piece.resize(1);
    }
    piece.push_back(std::move(next));
  }
  return out + draw(piece);
}

}  // namespace

size_t columns_of(std::string_view text) {
  size_t width = 0;
  while (!text.empty()) {
    const Letter letter = letter_or_byte(text);
    width += width_of(letter.code);
    text.remove_prefix(letter.bytes);
  }
  return width;
}

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto letter = first_letter(text);
    const bool control = !letter || letter->code < 0x20 ||
                         (letter->code >= 0x7F && letter->code < 0xA0) ||
                         (letter->code >= 0x2028 && letter->code <= 0x202E);
    const size_t bytes = letter ? letter->bytes : 1;
    if (control) {
      out += '?';
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  return out;
}

std::string keep_tail(std::string_view text, size_t columns) {
  if (columns_of(text) <= columns) return std::string(text);
  const size_t dots = std::min<size_t>(3, columns / 2);
  // Letters go from the front until the rest fits behind the dots.
  while (columns_of(text) > columns - dots) text.remove_prefix(letter_or_byte(text).bytes);
  return std::string(dots, '.') + std::string(text);
}

std::string fold(std::string_view text, size_t columns, size_t indent) {
  std::string out;
  columns = std::max<size_t>(columns, 2);  // a wide letter
  indent = columns > 2 * indent + 8 ? indent : 0;
  for (bool first = true; first || !text.empty(); first = false) {
    const size_t room = columns - (first ? 0 : indent);
    size_t take = bytes_within(text, room);
    if (take < text.size()) {
      const size_t blank = text.substr(0, take + 1).rfind(' ');
      if (blank != std::string_view::npos && blank > 0) take = blank;
    }
    out.append(first ? 0 : indent, ' ').append(text.substr(0, take)) += '\n';
    text.remove_prefix(take);
    while (text.starts_with(' ')) text.remove_prefix(1);
  }
  return out;
}

std::string grid(std::vector<Column> columns, size_t width) {
  width = std::max<size_t>(width, 16);
  auto rendered = render_all(columns, kAll);
  if (width_of(rendered) > width) rendered = render_all(columns, kDense);
  while (width_of(rendered) > width) {
    const auto out = std::ranges::find(columns, true, &Column::optional);
    if (out == columns.end()) break;
    rendered.erase(rendered.begin() + (out - columns.begin()));
    columns.erase(out);
  }
  for (const Room& room : kSmaller)
    if (width_of(rendered) > width) rendered = render_all(columns, room);
  return width_of(rendered) <= width ? draw(rendered) : in_pieces(columns, width);
}

}  // namespace muster
