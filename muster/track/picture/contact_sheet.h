// Images side by side, and what is marked in them: what a change of images does, seen at once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "muster/track/picture/picture.h"

namespace muster::track {

/// A closed line over an image, in its pixels.
struct SheetOutline {
  std::vector<Point> corners;
  std::string label;  ///< at the first corner; may be empty
  size_t series = 0;  ///< outlines of one number have one colour
};

struct SheetImage {
  int64_t height = 0;
  int64_t width = 0;
  std::vector<uint8_t> rgb;  ///< [height, width, 3]
  std::string caption;
  std::vector<SheetOutline> outlines;
  std::vector<Point> points;
};

struct SheetRow {
  std::string caption;
  std::vector<SheetImage> images;
};

struct ContactSheet {
  std::string title;
  std::vector<std::string> notes;     ///< below the title, in as many lines as they take
  std::vector<std::string> headings;  ///< of the columns; may be fewer
  std::vector<SheetRow> rows;
};

/// The bytes of a PNG file: each image as large as fits a cell of `cell` units (two pixels each), small
/// ones enlarged by whole numbers where they can be. Throws as picture_png().
std::string contact_sheet_png(const ContactSheet& sheet, double cell = 150);

}  // namespace muster::track
