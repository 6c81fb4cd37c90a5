#include "muster/image/resample/resize.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::image {
namespace {

constexpr int64_t kTile = 16;  // rows that are turned to columns together

void check_images_to_resize(const Pixels& in, const MutablePixels& out) {
  const auto refuse = [&](std::string rule, std::string value) {
    throw usage_error(
        {.refused = "resize of an image", .rule = std::move(rule), .value = std::move(value)});
  };
  const auto sizes = [](const Pixels& image) {
    return concat(image.channels, " x ", image.height, " x ", image.width);
  };
  constexpr int64_t kMost = int64_t{1} << 24;
  for (const Pixels& image : {in, Pixels(out)}) {
    if (image.channels < 1 || image.height < 1 || image.width < 1 || image.height > kMost ||
        image.width > kMost)
      refuse(concat("each side is in 1 … ", kMost), sizes(image));
  }
  if (in.channels != out.channels)
    refuse("the new image has as many channels", concat(in.channels, ", ", out.channels));
  if (!(in.is_planar() || in.is_interleaved()) || !out.is_planar())
    refuse("rows are without gaps", concat("a step of ", in.pixel_stride, ", ", out.pixel_stride));
}

/// Rows are filtered 16 at a time: as columns of a tile, so that a column is a vector.
class Widths {
 public:
  Widths(const Pixels& in, const MutablePixels& out, const TapTable& taps, const Kernels& loops)
      : in_(in), out_(out), taps_(taps), loops_(loops) {
    const int64_t columns = in.is_planar() ? in.width : in.width * in.channels;
    before_.resize(static_cast<size_t>(columns * kTile));
    after_.resize(static_cast<size_t>(out.width * kTile));
  }

  void filter() {
    if (in_.is_planar()) {
      for (int64_t row = 0; row < in_.channels * in_.height; row += kTile) filter_planar(row);
    } else {
      for (int64_t row = 0; row < in_.height; row += kTile) filter_interleaved(row);
    }
  }

 private:
  /// Rows of all channels, one behind the other. A tile that is not full repeats the last row.
  void filter_planar(int64_t first) {
    const int64_t count = std::min(kTile, in_.channels * in_.height - first);
    std::array<const uint8_t*, kTile> from{};
    std::array<uint8_t*, kTile> to{};
    for (int64_t i = 0; i < kTile; ++i) {
      const int64_t row = first + std::min(i, count - 1);
      from[i] = in_.at(row / in_.height, row % in_.height);
      to[i] = out_.at(row / in_.height, row % in_.height);
    }
    loops_.to_columns(from.data(), in_.width, before_.data());
    loops_.weighted_sums(taps_, before_.data(), kTile, after_.data(), kTile, kTile);
    loops_.to_rows(after_.data(), out_.width, to.data(), count);
  }

  void filter_interleaved(int64_t first) {
    const int64_t count = std::min(kTile, in_.height - first);
    std::array<const uint8_t*, kTile> from{};
    for (int64_t i = 0; i < kTile; ++i) from[i] = in_.at(0, first + std::min(i, count - 1));
    loops_.to_columns(from.data(), in_.width * in_.channels, before_.data());
    for (int64_t c = 0; c < in_.channels; ++c) {
      std::array<uint8_t*, kTile> to{};
      for (int64_t i = 0; i < count; ++i) to[i] = out_.at(c, first + i);
      loops_.weighted_sums(
          taps_, before_.data() + c * kTile, in_.channels * kTile, after_.data(), kTile, kTile);
      loops_.to_rows(after_.data(), out_.width, to.data(), count);
    }
  }

  Pixels in_;
  MutablePixels out_;  // as high as `in`
  TapTable taps_;
  const Kernels& loops_;
  std::vector<uint8_t> before_, after_;
};

/// In the layout that `in` has.
void filter_heights(const Pixels& in,
                    const MutablePixels& out,
                    const TapTable& taps,
                    const Kernels& loops) {
  const bool planes = in.is_planar();
  for (int64_t c = 0; c < (planes ? in.channels : 1); ++c)
    loops.weighted_sums(taps,
                        in.at(c, 0),
                        in.row_stride,
                        out.at(c, 0),
                        out.row_stride,
                        planes ? out.width : out.width * out.channels);
}

/// Pillow 13 begins with the heights where they lose much more than the widths (its pull request
/// 9549); what is rounded in between is other pixels then.
bool heights_come_first(const Pixels& in, const MutablePixels& out, Reference reference) {
  const int64_t less_high = in.height - out.height, less_wide = in.width - out.width;
  return reference == Reference::kPillow && less_wide != 0 && less_high > 0 &&
         less_high > 2 * less_wide;
}

void resize_heights_first(const Pixels& in,
                          const MutablePixels& out,
                          const TapTable& widths,
                          const TapTable& heights,
                          const Kernels& loops) {
  std::vector<uint8_t> memory(static_cast<size_t>(in.channels * out.height * in.width));
  const MutablePixels low = in.is_planar()
                                ? planar(memory.data(), in.channels, out.height, in.width)
                                : interleaved(memory.data(), in.channels, out.height, in.width);
  filter_heights(in, low, heights, loops);
  Widths(low, out, widths, loops).filter();
}

void copy_to_planar(const Pixels& in, const MutablePixels& out) {
  for (int64_t c = 0; c < in.channels; ++c) {
    for (int64_t y = 0; y < in.height; ++y) {
      const uint8_t* from = in.at(c, y);
      uint8_t* to = out.at(c, y);
      if (in.is_planar()) {
        std::memcpy(to, from, static_cast<size_t>(in.width));
      } else {
        for (int64_t x = 0; x < in.width; ++x) to[x] = from[x * in.pixel_stride];
      }
    }
  }
}

void resize_nearest(const Pixels& in, const MutablePixels& out) {
  const std::vector<int32_t> columns = nearest_places(in.width, out.width);
  const std::vector<int32_t> rows = nearest_places(in.height, out.height);
  for (int64_t c = 0; c < in.channels; ++c) {
    for (int64_t y = 0; y < out.height; ++y) {
      const uint8_t* from = in.at(c, rows[static_cast<size_t>(y)]);
      uint8_t* to = out.at(c, y);
      for (int64_t x = 0; x < out.width; ++x)
        to[x] = from[columns[static_cast<size_t>(x)] * in.pixel_stride];
    }
  }
}

}  // namespace

void resize(const Pixels& in,
            const MutablePixels& out,
            Filter filter,
            Reference reference,
            const Kernels& loops) {
  check_images_to_resize(in, out);
  if (filter == Filter::kNearest) return resize_nearest(in, out);
  const bool wide = in.width != out.width, high = in.height != out.height;
  if (!wide && !high) return copy_to_planar(in, out);
  if (heights_come_first(in, out, reference)) {
    const Taps widths(filter, in.width, out.width, reference);
    const Taps heights(filter, in.height, out.height, reference);
    return resize_heights_first(in, out, widths.table(), heights.table(), loops);
  }
  Pixels between = in;
  std::vector<uint8_t> memory;
  if (wide || !in.is_planar()) {
    MutablePixels narrow = out;
    if (high) {
      memory.resize(static_cast<size_t>(in.channels * in.height * out.width));
      narrow = planar(memory.data(), in.channels, in.height, out.width);
    }
    if (wide) {
      const Taps taps(filter, in.width, out.width, reference);
      Widths(in, narrow, taps.table(), loops).filter();
    } else {
      copy_to_planar(in, narrow);
    }
    between = narrow;
  }
  if (high) {
    const Taps taps(filter, in.height, out.height, reference);
    filter_heights(between, out, taps.table(), loops);
  }
}

void resize(const Pixels& in, const MutablePixels& out, Filter filter, Reference reference) {
  resize(in, out, filter, reference, kernels());
}

Size resized_size(const Size& image, int64_t size, int64_t max_size) {
  const bool upright = image.width <= image.height;
  const auto short_side = static_cast<double>(upright ? image.width : image.height);
  const auto long_side = static_cast<double>(upright ? image.height : image.width);
  // Python multiplies whole numbers and divides once.
  int64_t new_short = size, new_long = max_size;
  if (size == 0) {
    new_short = static_cast<int64_t>(static_cast<double>(max_size) * short_side / long_side);
  } else {
    new_long = static_cast<int64_t>(static_cast<double>(size) * long_side / short_side);
    if (max_size > 0 && new_long > max_size) {
      new_short = static_cast<int64_t>(static_cast<double>(max_size * new_short) /
                                       static_cast<double>(new_long));
      new_long = max_size;
    }
  }
  return upright ? Size{new_long, new_short} : Size{new_short, new_long};
}

}  // namespace muster::image
