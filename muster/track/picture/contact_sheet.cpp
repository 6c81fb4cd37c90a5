#include "muster/track/picture/contact_sheet.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "muster/track/picture/picture_png.h"

namespace muster::track {
namespace {

// Units.
constexpr double kSheetMargin = 20, kCellGap = 12;
constexpr double kSheetTitleHeight = 26, kNoteHeight = 16, kHeadingHeight = 22;
constexpr double kRowCaptionHeight = 20, kCaptionHeight = 16, kRowGap = 14;
constexpr double kNoteSize = 11;
constexpr double kPixelsPerUnit = 2;

/// Lines that fit, broken behind bars, commas and blanks where there are any.
std::vector<std::string> wrapped(std::string_view text, double room, double size) {
  std::vector<std::string> lines(1);
  const auto add = [&](std::string_view part) {
    if (!lines.back().empty() && text_width(lines.back() + std::string(part), size) > room)
      lines.emplace_back();
    lines.back() += part;
  };
  while (!text.empty()) {
    const size_t end = text.find_first_of("|, ");
    const size_t length = end == std::string_view::npos ? text.size() : end + 1;
    add(text.substr(0, length));
    text.remove_prefix(length);
  }
  return lines;
}

/// How an image of that size lies in a cell.
struct Fit {
  double scale = 1;  // units per pixel
  double width = 0, height = 0;
};

Fit fit(const SheetImage& image, double cell) {
  const auto width = static_cast<double>(std::max<int64_t>(image.width, 1));
  const auto height = static_cast<double>(std::max<int64_t>(image.height, 1));
  double scale = cell / std::max(width, height);
  const double whole = std::floor(scale * kPixelsPerUnit);
  if (whole >= 2) scale = whole / kPixelsPerUnit;  // pixels stay squares of one size
  return {scale, width * scale, height * scale};
}

class SheetPainter {
 public:
  SheetPainter(const ContactSheet& sheet, double cell)
      : sheet_(sheet),
        cell_(cell),
        notes_(note_lines(sheet, cell)),
        picture_(width_of(sheet, cell), height_of(sheet, cell), sheet.title) {}

  std::string png() {
    double y = kSheetMargin;
    y = head(y);
    for (const SheetRow& row : sheet_.rows) y = row_at(row, y);
    return picture_png(picture_, kPixelsPerUnit, rasters_);
  }

 private:
  static double width_of(const ContactSheet& sheet, double cell) {
    size_t columns = 3;  // room for the title
    for (const SheetRow& row : sheet.rows) columns = std::max(columns, row.images.size());
    return 2 * kSheetMargin + static_cast<double>(columns) * (cell + kCellGap) - kCellGap;
  }

  static std::vector<std::string> note_lines(const ContactSheet& sheet, double cell) {
    std::vector<std::string> lines;
    for (const std::string& note : sheet.notes) {
      for (std::string& line : wrapped(note, width_of(sheet, cell) - 2 * kSheetMargin, kNoteSize))
        lines.push_back(std::move(line));
    }
    return lines;
  }

  static double row_height(const SheetRow& row, double cell) {
    double tallest = 0;
    for (const SheetImage& image : row.images) tallest = std::max(tallest, fit(image, cell).height);
    return kRowCaptionHeight + tallest + kCaptionHeight + kRowGap;
  }

  static double height_of(const ContactSheet& sheet, double cell) {
    double height = 2 * kSheetMargin - kRowGap + kSheetTitleHeight +
                    static_cast<double>(note_lines(sheet, cell).size()) * kNoteHeight;
    if (!sheet.headings.empty()) height += kHeadingHeight;
    for (const SheetRow& row : sheet.rows) height += row_height(row, cell);
    return height;
  }

  double column(size_t number) const {
    return kSheetMargin + static_cast<double>(number) * (cell_ + kCellGap);
  }

  void write(
      std::string text, double x, double base, Ink ink, double size, bool bold, double room) {
    picture_.add(TextCommand{.x = x,
                             .y = base,
                             .text = cut_text(text, room, size, bold),
                             .ink = ink,
                             .size = size,
                             .bold = bold});
  }

  double head(double y) {
    const double room = picture_.width() - 2 * kSheetMargin;
    write(sheet_.title, kSheetMargin, y + 15, Ink::kStrong, 16, true, room);
    y += kSheetTitleHeight;
    for (const std::string& note : notes_) {
      write(note, kSheetMargin, y + 10, Ink::kDim, kNoteSize, false, room);
      y += kNoteHeight;
    }
    if (sheet_.headings.empty()) return y;
    for (size_t i = 0; i < sheet_.headings.size(); ++i)
      write(sheet_.headings[i], column(i), y + 16, Ink::kText, 11, true, cell_);
    return y + kHeadingHeight;
  }

  double row_at(const SheetRow& row, double y) {
    picture_.add(
        LineCommand{.points = {{kSheetMargin, y + 2}, {picture_.width() - kSheetMargin, y + 2}},
                    .ink = Ink::kGrid,
                    .width = 1});
    write(row.caption,
          kSheetMargin,
          y + 15,
          Ink::kText,
          11,
          false,
          picture_.width() - 2 * kSheetMargin);
    for (size_t i = 0; i < row.images.size(); ++i)
      image_at(row.images[i], column(i), y + kRowCaptionHeight);
    return y + row_height(row, cell_);
  }

  void image_at(const SheetImage& image, double x, double y) {
    const Fit at = fit(image, cell_);
    rasters_.push_back({.x = x,
                        .y = y,
                        .width = at.width,
                        .height = at.height,
                        .rows = image.height,
                        .columns = image.width,
                        .rgb = image.rgb});
    closed_line({{x, y}, {x + at.width, y}, {x + at.width, y + at.height}, {x, y + at.height}},
                Ink::kAxis,
                0.5,
                1);
    const auto placed = [&](const Point& point) {
      return Point{x + point.x * at.scale, y + point.y * at.scale};
    };
    for (const SheetOutline& outline : image.outlines) outline_at(outline, placed);
    for (const Point& point : image.points) {
      const Point to = placed(point);
      if (to.x < x || to.y < y || to.x > x + at.width || to.y > y + at.height) continue;
      picture_.add(
          MarkCommand{.x = to.x, .y = to.y, .ink = Ink::kBad, .radius = 2.5, .outlined = true});
    }
    write(image.caption, x, y + at.height + 12, Ink::kDim, 9.5, false, cell_);
  }

  template <class Placed>
  void outline_at(const SheetOutline& outline, Placed placed) {
    std::vector<Point> corners;
    for (const Point& corner : outline.corners) corners.push_back(placed(corner));
    if (corners.empty()) return;
    closed_line(corners, Ink::kPage, 3, 0.7);
    closed_line(corners, series_ink(outline.series), 1.5, 1);
    if (outline.label.empty()) return;
    picture_.add(TextCommand{.x = corners[0].x + 3,
                             .y = corners[0].y + 10,
                             .text = outline.label,
                             .ink = series_ink(outline.series),
                             .size = 9.5,
                             .bold = true,
                             .halo = true});
  }

  void closed_line(std::vector<Point> points, Ink ink, double width, double opacity) {
    points.push_back(points.front());
    picture_.add(
        LineCommand{.points = std::move(points), .ink = ink, .width = width, .opacity = opacity});
  }

  const ContactSheet& sheet_;
  double cell_;
  std::vector<std::string> notes_;
  Picture picture_;
  std::vector<Raster> rasters_;
};

}  // namespace

std::string contact_sheet_png(const ContactSheet& sheet, double cell) {
  return SheetPainter(sheet, cell).png();
}

}  // namespace muster::track
