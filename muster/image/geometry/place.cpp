#include "muster/image/geometry/place.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/image/kernels/kernels.h"

namespace muster::image {
namespace {

constexpr int64_t kBeyond = -1;

/// The pixel of the image that stands `at` pixels from its first one, which may be beyond its ends.
int64_t source_of(int64_t at, int64_t size, Border border) {
  if (at >= 0 && at < size) return at;
  switch (border) {
    case Border::kConstant:
      return kBeyond;
    case Border::kEdge:
      return std::clamp<int64_t>(at, 0, size - 1);
    case Border::kReflect:
      return at < 0 ? -at : 2 * (size - 1) - at;
    case Border::kSymmetric:
      return at < 0 ? -1 - at : 2 * size - 1 - at;
  }
  return kBeyond;
}

std::vector<int64_t> sources(int64_t size, int64_t shift, int64_t out, Border border) {
  std::vector<int64_t> places(static_cast<size_t>(out));
  for (int64_t i = 0; i < out; ++i) {
    const int64_t place = source_of(i - shift, size, border);
    const bool mirrored = border == Border::kReflect || border == Border::kSymmetric;
    if (mirrored && (place < 0 || place >= size)) {
      const int64_t reach = std::max(shift, out - shift - size);
      throw usage_error({.refused = concat("border \"", to_string(border), '"'),
                         .rule = concat("it is at most as wide as what is mirrored, ",
                                        border == Border::kReflect ? size - 1 : size,
                                        " pixels"),
                         .value = concat(reach)});
    }
    places[static_cast<size_t>(i)] = place;
  }
  return places;
}

void copy_row(const uint8_t* from, int64_t from_step, uint8_t* to, int64_t to_step, int64_t count) {
  if (from_step == 1 && to_step == 1) {
    std::memcpy(to, from, static_cast<size_t>(count));
  } else {
    for (int64_t x = 0; x < count; ++x) to[x * to_step] = from[x * from_step];
  }
}

void fill_row(uint8_t* to, int64_t step, int64_t count, uint8_t value) {
  for (int64_t x = 0; x < count; ++x) to[x * step] = value;
}

}  // namespace

std::string_view to_string(Border border) {
  switch (border) {
    case Border::kConstant:
      return "constant";
    case Border::kEdge:
      return "edge";
    case Border::kReflect:
      return "reflect";
    case Border::kSymmetric:
      return "symmetric";
  }
  return "unknown";
}

void copy(const Pixels& in, const MutablePixels& out) {
  for (int64_t c = 0; c < in.channels; ++c) {
    for (int64_t y = 0; y < in.height; ++y)
      copy_row(in.at(c, y), in.pixel_stride, out.at(c, y), out.pixel_stride, in.width);
  }
}

void flip_vertical(const Pixels& in, const MutablePixels& out) {
  for (int64_t c = 0; c < in.channels; ++c) {
    for (int64_t y = 0; y < in.height; ++y)
      copy_row(
          in.at(c, in.height - 1 - y), in.pixel_stride, out.at(c, y), out.pixel_stride, in.width);
  }
}

void flip_horizontal(const Pixels& in, const MutablePixels& out) {
  const Kernels& loops = kernels();
  for (int64_t c = 0; c < in.channels; ++c) {
    for (int64_t y = 0; y < in.height; ++y) {
      const uint8_t* from = in.at(c, y);
      uint8_t* to = out.at(c, y);
      if (in.pixel_stride == 1 && out.pixel_stride == 1) {
        loops.reversed(from, in.width, to);
      } else {
        for (int64_t x = 0; x < in.width; ++x)
          to[x * out.pixel_stride] = from[(in.width - 1 - x) * in.pixel_stride];
      }
    }
  }
}

void place(const Pixels& in,
           const MutablePixels& out,
           int64_t top,
           int64_t left,
           Border border,
           std::span<const uint8_t> fill) {
  const std::vector<int64_t> rows = sources(in.height, top, out.height, border);
  const std::vector<int64_t> columns = sources(in.width, left, out.width, border);
  const int64_t begin = std::clamp<int64_t>(left, 0, out.width);
  const int64_t end = std::clamp<int64_t>(left + in.width, begin, out.width);
  for (int64_t c = 0; c < in.channels; ++c) {
    const uint8_t value =
        fill.empty() ? uint8_t{0} : fill[fill.size() == 1 ? 0 : static_cast<size_t>(c)];
    for (int64_t y = 0; y < out.height; ++y) {
      const int64_t row = rows[static_cast<size_t>(y)];
      uint8_t* to = out.at(c, y);
      if (row == kBeyond) {
        fill_row(to, out.pixel_stride, out.width, value);
        continue;
      }
      const auto one = [&](int64_t x) {
        const int64_t column = columns[static_cast<size_t>(x)];
        to[x * out.pixel_stride] = column == kBeyond ? value : *in.at(c, row, column);
      };
      for (int64_t x = 0; x < begin; ++x) one(x);
      for (int64_t x = end; x < out.width; ++x) one(x);
      if (end > begin)
        copy_row(in.at(c, row, begin - left),
                 in.pixel_stride,
                 to + begin * out.pixel_stride,
                 out.pixel_stride,
                 end - begin);
    }
  }
}

}  // namespace muster::image
