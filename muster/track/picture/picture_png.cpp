#include "muster/track/picture/picture_png.h"

#include <algorithm>
#include <cstring>
#include <numbers>

#include <cairo.h>

#include "muster/base/error.h"
#include "muster/base/overloaded.h"
#include "muster/base/text.h"
#include "muster/track/picture/cairo_library.h"

namespace muster::track {
namespace {

constexpr double kLargestSide = 32767;  // pixels; cairo's
constexpr const char* kFont = "sans-serif";

void require(cairo_status_t status) {
  if (status == CAIRO_STATUS_SUCCESS) return;
  throw environment_error({.refused = "a picture as PNG",
                           .rule = concat("cairo: ", cairo_library().status_to_string(status))});
}

/// A drawing surface that frees itself.
class Canvas {
 public:
  Canvas(double width, double height, double scale)
      : scale_(scale),
        surface_(c_.image_surface_create(
            CAIRO_FORMAT_RGB24, static_cast<int>(width * scale), static_cast<int>(height * scale))),
        cairo_(c_.create(surface_)) {
    c_.scale(cairo_, scale, scale);
    c_.set_line_cap(cairo_, CAIRO_LINE_CAP_ROUND);
    c_.set_line_join(cairo_, CAIRO_LINE_JOIN_ROUND);
  }
  ~Canvas() {
    c_.destroy(cairo_);
    c_.surface_destroy(surface_);
  }
  Canvas(const Canvas&) = delete;

  void draw(const Raster& raster);
  void draw(const LineCommand& line);
  void draw(const BoxCommand& box);
  void draw(const MarkCommand& mark);
  void draw(const TextCommand& words);
  std::string png();

 private:
  void use(Ink ink, double opacity = 1) {
    const Rgb rgb = light_rgb(ink);
    c_.set_source_rgba(cairo_, rgb.red / 255.0, rgb.green / 255.0, rgb.blue / 255.0, opacity);
  }
  void stroke(Ink ink, double width, double opacity = 1) {
    use(ink, opacity);
    c_.set_line_width(cairo_, width);
    c_.stroke(cairo_);
  }
  /// The area of the mark, dots and diamonds, as the current path.
  void outline(const MarkCommand& mark);

  const CairoLibrary& c_ = cairo_library();
  double scale_;
  cairo_surface_t* surface_;
  cairo_t* cairo_;
};

/// Of the raster's own size.
cairo_surface_t* surface_of(const Raster& raster) {
  const CairoLibrary& c = cairo_library();
  cairo_surface_t* surface = c.image_surface_create(
      CAIRO_FORMAT_RGB24, static_cast<int>(raster.columns), static_cast<int>(raster.rows));
  unsigned char* memory = c.image_surface_get_data(surface);
  if (memory == nullptr) return surface;  // which says why
  const int64_t stride = c.image_surface_get_stride(surface);
  for (int64_t row = 0; row < raster.rows; ++row) {
    const uint8_t* from = raster.rgb.data() + row * raster.columns * 3;
    for (int64_t column = 0; column < raster.columns; ++column, from += 3) {
      const uint32_t pixel = static_cast<uint32_t>(from[0]) << 16U |
                             static_cast<uint32_t>(from[1]) << 8U | static_cast<uint32_t>(from[2]);
      std::memcpy(memory + row * stride + column * 4, &pixel, sizeof pixel);
    }
  }
  c.surface_mark_dirty(surface);
  return surface;
}

void Canvas::draw(const Raster& raster) {
  if (static_cast<int64_t>(raster.rgb.size()) != raster.rows * raster.columns * 3)
    throw internal_error({.refused = "a raster of a picture",
                          .rule = "it has three bytes a pixel",
                          .value = concat(raster.rgb.size())});
  cairo_surface_t* surface = surface_of(raster);
  const double stretch = raster.width / static_cast<double>(std::max<int64_t>(raster.columns, 1));
  c_.save(cairo_);
  c_.translate(cairo_, raster.x, raster.y);
  c_.scale(cairo_, stretch, raster.height / static_cast<double>(std::max<int64_t>(raster.rows, 1)));
  c_.set_source_surface(cairo_, surface, 0, 0);
  const bool grows = stretch * scale_ >= 1;
  c_.pattern_set_filter(c_.get_source(cairo_), grows ? CAIRO_FILTER_NEAREST : CAIRO_FILTER_BEST);
  c_.pattern_set_extend(c_.get_source(cairo_), CAIRO_EXTEND_PAD);
  c_.rectangle(cairo_, 0, 0, static_cast<double>(raster.columns), static_cast<double>(raster.rows));
  c_.fill(cairo_);
  c_.restore(cairo_);
  c_.surface_destroy(surface);
}

void Canvas::draw(const LineCommand& line) {
  constexpr double kDashes[] = {2, 3};
  if (line.dashed) c_.set_dash(cairo_, kDashes, 2, 0);
  for (const Point& point : line.points) c_.line_to(cairo_, point.x, point.y);
  stroke(line.ink, line.width, line.opacity);
  c_.set_dash(cairo_, nullptr, 0, 0);
}

void Canvas::draw(const BoxCommand& box) {
  use(box.fill, box.opacity);
  c_.set_antialias(cairo_, box.crisp ? CAIRO_ANTIALIAS_NONE : CAIRO_ANTIALIAS_DEFAULT);
  c_.rectangle(cairo_, box.x, box.y, box.width, box.height);
  c_.fill(cairo_);
  c_.set_antialias(cairo_, CAIRO_ANTIALIAS_DEFAULT);
}

void Canvas::outline(const MarkCommand& mark) {
  if (mark.shape == Shape::kDiamond) {
    const double r = 1.5 * mark.radius;
    c_.move_to(cairo_, mark.x, mark.y - r);
    c_.line_to(cairo_, mark.x + r, mark.y);
    c_.line_to(cairo_, mark.x, mark.y + r);
    c_.line_to(cairo_, mark.x - r, mark.y);
    c_.close_path(cairo_);
  } else {
    c_.new_sub_path(cairo_);
    c_.arc(cairo_, mark.x, mark.y, mark.radius, 0, 2 * std::numbers::pi);
  }
}

void Canvas::draw(const MarkCommand& mark) {
  const double r = mark.radius;
  switch (mark.shape) {
    case Shape::kCross:
      c_.move_to(cairo_, mark.x - r, mark.y - r);
      c_.line_to(cairo_, mark.x + r, mark.y + r);
      c_.move_to(cairo_, mark.x - r, mark.y + r);
      c_.line_to(cairo_, mark.x + r, mark.y - r);
      return stroke(mark.ink, 1.5);
    case Shape::kBar:
      c_.move_to(cairo_, mark.x, mark.y - r);
      c_.line_to(cairo_, mark.x, mark.y + r);
      return stroke(mark.ink, 1.5);
    default:
      break;
  }
  const bool ring = mark.shape == Shape::kRing;
  outline(mark);
  use(ring ? Ink::kPage : mark.ink);
  c_.fill_preserve(cairo_);
  if (ring || mark.outlined) {
    stroke(ring ? mark.ink : Ink::kPage, ring ? 1.5 : 0.8);
  } else {
    c_.new_path(cairo_);
  }
}

void Canvas::draw(const TextCommand& words) {
  c_.select_font_face(cairo_,
                      kFont,
                      CAIRO_FONT_SLANT_NORMAL,
                      words.bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
  c_.set_font_size(cairo_, words.size);
  cairo_text_extents_t extents;
  c_.text_extents(cairo_, words.text.c_str(), &extents);
  constexpr double kShares[] = {0, 0.5, 1};
  const double left = words.x - kShares[static_cast<size_t>(words.anchor)] * extents.x_advance;
  if (words.halo) {
    c_.move_to(cairo_, left, words.y);
    c_.text_path(cairo_, words.text.c_str());
    stroke(Ink::kPage, 3);
  }
  use(words.ink);
  c_.move_to(cairo_, left, words.y);
  c_.show_text(cairo_, words.text.c_str());
  c_.new_path(cairo_);
}

std::string Canvas::png() {
  require(c_.status(cairo_));
  std::string bytes;
  require(c_.surface_write_to_png_stream(
      surface_,
      [](void* out, const unsigned char* data, unsigned int length) {
        static_cast<std::string*>(out)->append(reinterpret_cast<const char*>(data), length);
        return CAIRO_STATUS_SUCCESS;
      },
      &bytes));
  return bytes;
}

}  // namespace

std::string picture_png(const Picture& picture, double scale, std::span<const Raster> rasters) {
  const double longest = std::max({picture.width(), picture.height(), 1.0});
  Canvas canvas(picture.width(), picture.height(), std::min(scale, kLargestSide / longest));
  canvas.draw(BoxCommand{.width = picture.width(), .height = picture.height(), .fill = Ink::kPage});
  for (const Raster& raster : rasters) canvas.draw(raster);
  for (const DrawCommand& command : picture.commands())
    std::visit([&](const auto& what) { canvas.draw(what); }, command);
  return canvas.png();
}

}  // namespace muster::track
