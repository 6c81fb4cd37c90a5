// A picture as a list of what is to be drawn, of which SVG and PNG are made alike.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "muster/track/page/line.h"
#include "muster/track/picture/ink.h"

namespace muster::track {

// Coordinates are in units, a pixel of a screen each, from the upper left corner. `item` is what a
// thing is of, a number of the caller's (a trial, say); -1: of nothing. Opacity is 0 … 1.

/// A line through points.
struct LineCommand {
  std::vector<Point> points;
  Ink ink = Ink::kText;
  double width = 1.5;
  double opacity = 1;
  bool dashed = false;
  int64_t item = -1;
};

/// An upright rectangle.
struct BoxCommand {
  double x = 0, y = 0, width = 0, height = 0;
  Ink fill = Ink::kText;
  double opacity = 1;
  bool crisp = false;  ///< edges on whole pixels, so that neighbours leave no seam
  int64_t item = -1;
};

enum class Shape : uint8_t {
  kDot,
  kRing,     ///< with the page's colour inside
  kCross,    ///< two strokes
  kDiamond,  ///< larger than a dot
  kBar       ///< a short upright stroke
};

/// One of many things at its place.
struct MarkCommand {
  double x = 0, y = 0;
  Shape shape = Shape::kDot;
  Ink ink = Ink::kText;
  double radius = 3;
  bool outlined = false;  ///< a dot or diamond with an edge in the page's colour
  int64_t item = -1;
};

enum class Anchor : uint8_t { kStart, kMiddle, kEnd };

/// One line of text; y is its base line.
struct TextCommand {
  double x = 0, y = 0;
  std::string text;
  Ink ink = Ink::kText;
  double size = 11;
  bool bold = false;
  Anchor anchor = Anchor::kStart;
  bool halo = false;  ///< an edge in the page's colour, for words over lines
};

using DrawCommand = std::variant<LineCommand, BoxCommand, MarkCommand, TextCommand>;

/// A value type. Later commands lie above earlier ones.
class Picture {
 public:
  Picture(double width, double height, std::string title)
      : width_(width), height_(height), title_(std::move(title)) {}

  template <class Command>
  void add(Command command) {
    commands_.emplace_back(std::move(command));
  }

  /// All of `inner`, moved right and down.
  void place(const Picture& inner, double x, double y);

  double width() const { return width_; }
  double height() const { return height_; }
  const std::string& title() const { return title_; }  ///< for those who cannot see it
  std::span<const DrawCommand> commands() const { return commands_; }

 private:
  double width_, height_;
  std::string title_;
  std::vector<DrawCommand> commands_;
};

/// How wide a line of text is drawn, about: nothing here measures letters.
double text_width(std::string_view text, double size = 11, bool bold = false);

/// `text` as UTF-8 without line ends, its end replaced by "…" so that it is about as wide as `width`
/// at most.
std::string cut_text(std::string_view text, double width, double size = 11, bool bold = false);

}  // namespace muster::track
