#include "muster/image/color/color.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "muster/image/geometry/place.h"
#include "muster/image/kernels/kernels.h"

namespace muster::image {
namespace {

uint8_t byte_of(float value) { return static_cast<uint8_t>(std::clamp(value, 0.0F, 255.0F)); }

template <class Change>
ByteTable table_of(Change change) {
  ByteTable table;
  for (size_t v = 0; v < table.size(); ++v) table[v] = change(v);
  return table;
}

void apply_to_channel(const Pixels& in,
                      const MutablePixels& out,
                      int64_t channel,
                      const ByteTable& table) {
  for (int64_t y = 0; y < in.height; ++y) {
    const uint8_t* from = in.at(channel, y);
    uint8_t* to = out.at(channel, y);
    if (in.is_planar() && out.is_planar()) {
      kernels().by_table(from, in.width, table.data(), to);
      continue;
    }
    for (int64_t x = 0; x < in.width; ++x)
      to[x * out.pixel_stride] = table[from[x * in.pixel_stride]];
  }
}

RgbRow row_of(const Pixels& image, int64_t y) {
  return {image.at(0, y), image.at(1, y), image.at(2, y), image.pixel_stride};
}
MutableRgbRow row_of(const MutablePixels& image, int64_t y) {
  return {image.at(0, y), image.at(1, y), image.at(2, y), image.pixel_stride};
}

using Histogram = std::array<int64_t, 256>;

Histogram histogram_of(const Pixels& in, int64_t channel) {
  // Four, since two equal values in a row would wait for each other.
  std::array<Histogram, 4> parts{};
  for (int64_t y = 0; y < in.height; ++y) {
    const uint8_t* row = in.at(channel, y);
    const int64_t whole = in.is_planar() ? in.width / 8 * 8 : 0;
    for (int64_t x = 0; x < whole; x += 8) {
      uint64_t eight = 0;
      std::memcpy(&eight, row + x, sizeof eight);
      for (size_t i = 0; i < 8; ++i, eight >>= 8) ++parts[i % 4][eight & 255];
    }
    for (int64_t x = whole; x < in.width; ++x)
      ++parts[static_cast<size_t>(x) % 4][row[x * in.pixel_stride]];
  }
  Histogram sum{};
  for (size_t v = 0; v < sum.size(); ++v)
    sum[v] = parts[0][v] + parts[1][v] + parts[2][v] + parts[3][v];
  return sum;
}

ByteTable autocontrast_table(const Pixels& in, int64_t channel) {
  uint8_t least = 255, greatest = 0;
  for (int64_t y = 0; y < in.height; ++y) {
    const uint8_t* row = in.at(channel, y);
    if (in.is_planar()) {
      kernels().widen(row, in.width, &least, &greatest);
      continue;
    }
    for (int64_t x = 0; x < in.width; ++x) {
      least = std::min(least, row[x * in.pixel_stride]);
      greatest = std::max(greatest, row[x * in.pixel_stride]);
    }
  }
  const bool flat = least == greatest;
  const float scale = flat ? 1.0F
                           : (static_cast<float>(greatest) - static_cast<float>(least)) *
                                 static_cast<float>(1.0 / 255.0);
  const float zero = flat ? 0.0F : least;
  return table_of([&](size_t v) { return byte_of((static_cast<float>(v) - zero) / scale); });
}

/// Pillow's and torchvision's: the last value that occurs counts for nothing.
ByteTable equalize_table(const Histogram& counts) {
  int64_t pixels = 0, last = 0;
  for (const int64_t count : counts) {
    pixels += count;
    if (count > 0) last = count;
  }
  const int64_t step = (pixels - last) / 255;
  if (step == 0) return table_of([](size_t v) { return static_cast<uint8_t>(v); });
  int64_t below = 0;
  return table_of([&](size_t v) {
    const int64_t level = v == 0 ? 0 : (below + step / 2) / step;
    below += counts[v];
    return static_cast<uint8_t>(std::clamp<int64_t>(level, 0, 255));
  });
}

}  // namespace

ByteTable brightness_table(double factor) {
  const auto share = static_cast<float>(factor);
  return table_of([&](size_t v) { return byte_of(static_cast<float>(v) * share); });
}

ByteTable blend_table(double ratio, float other) {
  const auto share = static_cast<float>(ratio), rest = static_cast<float>(1.0 - ratio);
  return table_of(
      [&](size_t v) { return byte_of(std::fma(other, rest, static_cast<float>(v) * share)); });
}

ByteTable invert_table() {
  return table_of([](size_t v) { return static_cast<uint8_t>(255 - v); });
}

ByteTable posterize_table(int64_t bits) {
  const auto mask = static_cast<uint8_t>(((1 << bits) - 1) << (8 - bits));
  return table_of([&](size_t v) { return static_cast<uint8_t>(v & mask); });
}

ByteTable solarize_table(double threshold) {
  const auto from = static_cast<float>(threshold);
  return table_of(
      [&](size_t v) { return static_cast<uint8_t>(static_cast<float>(v) >= from ? 255 - v : v); });
}

void apply_table(const Pixels& in, const MutablePixels& out, const ByteTable& table) {
  if (in.is_interleaved() && out.is_interleaved()) {
    for (int64_t y = 0; y < in.height; ++y)
      kernels().by_table(in.at(0, y), in.width * in.channels, table.data(), out.at(0, y));
    return;
  }
  for (int64_t c = 0; c < in.channels; ++c) apply_to_channel(in, out, c, table);
}

void grayscale(const Pixels& in, const MutablePixels& out) {
  std::vector<uint8_t> levels(static_cast<size_t>(in.width));
  for (int64_t y = 0; y < in.height; ++y) {
    uint8_t* to = out.at(0, y);
    if (out.pixel_stride == 1) {
      kernels().gray(row_of(in, y), in.width, to);
      continue;
    }
    kernels().gray(row_of(in, y), in.width, levels.data());
    for (int64_t x = 0; x < in.width; ++x)
      to[x * out.pixel_stride] = levels[static_cast<size_t>(x)];
  }
}

int64_t gray_sum(const Pixels& in) {
  std::vector<uint8_t> levels(static_cast<size_t>(in.width));
  int64_t sum = 0;
  for (int64_t y = 0; y < in.height; ++y) {
    if (in.channels == 1) {
      for (int64_t x = 0; x < in.width; ++x) sum += *in.at(0, y, x);
      continue;
    }
    kernels().gray(row_of(in, y), in.width, levels.data());
    int32_t of_row = 0;  // rows have fewer than 2^23 pixels, or the sum would be cut
    for (const uint8_t level : levels) of_row += level;
    sum += of_row;
  }
  return sum;
}

void adjust_saturation(const Pixels& in, const MutablePixels& out, double ratio) {
  if (in.channels == 1) return copy(in, out);
  for (int64_t y = 0; y < in.height; ++y)
    kernels().saturation(row_of(in, y), in.width, ratio, row_of(out, y));
}

void adjust_hue(const Pixels& in, const MutablePixels& out, double turn) {
  if (in.channels == 1) return copy(in, out);
  for (int64_t y = 0; y < in.height; ++y)
    kernels().hue(row_of(in, y), in.width, turn, row_of(out, y));
}

void adjust_hue_of_floats(const float* in, float* out, int64_t count, double turn) {
  const std::array<const float*, 3> from{in, in + count, in + 2 * count};
  const std::array<float*, 3> to{out, out + count, out + 2 * count};
  kernels().hue_of_floats(from.data(), count, turn, to.data());
}

void adjust_sharpness(const Pixels& in, const MutablePixels& out, double factor) {
  copy(in, out);
  if (in.height <= 2 || in.width <= 2) return;
  const bool is_plain = in.is_planar() && out.is_planar();
  const int64_t width = in.width;
  std::vector<uint8_t> rows(is_plain ? 0 : static_cast<size_t>(4 * width));
  for (int64_t c = 0; c < in.channels; ++c) {
    for (int64_t y = 1; y < in.height - 1; ++y) {
      if (is_plain) {
        kernels().sharpness(
            in.at(c, y - 1), in.at(c, y), in.at(c, y + 1), width, factor, out.at(c, y));
        continue;
      }
      for (int64_t r = 0; r < 3; ++r) {
        for (int64_t x = 0; x < width; ++x)
          rows[static_cast<size_t>(r * width + x)] = *in.at(c, y - 1 + r, x);
      }
      uint8_t* sharp = &rows[static_cast<size_t>(3 * width)];
      kernels().sharpness(rows.data(),
                          &rows[static_cast<size_t>(width)],
                          &rows[static_cast<size_t>(2 * width)],
                          width,
                          factor,
                          sharp);
      for (int64_t x = 1; x < width - 1; ++x) *out.at(c, y, x) = sharp[x];
    }
  }
}

void autocontrast(const Pixels& in, const MutablePixels& out) {
  for (int64_t c = 0; c < in.channels; ++c) apply_to_channel(in, out, c, autocontrast_table(in, c));
}

void equalize(const Pixels& in, const MutablePixels& out) {
  for (int64_t c = 0; c < in.channels; ++c)
    apply_to_channel(in, out, c, equalize_table(histogram_of(in, c)));
}

}  // namespace muster::image
