#include "muster/image/resample/taps.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace muster::image {
namespace {

double box_window(double x) { return x > -0.5 && x <= 0.5 ? 1.0 : 0.0; }

double triangle(double x) {
  x = std::abs(x);
  return x < 1.0 ? 1.0 - x : 0.0;
}

double hamming_window(double x) {
  x = std::abs(x);
  if (x == 0.0) return 1.0;
  if (x >= 1.0) return 0.0;
  x *= std::numbers::pi;
  return std::sin(x) / x * (0.54F + 0.46F * std::cos(x));  // Pillow's constants are float32
}

double cubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((kA + 2.0) * x - (kA + 3.0)) * x * x + 1.0;
  if (x < 2.0) return (((x - 5.0) * x + 8.0) * x - 4.0) * kA;
  return 0.0;
}

double sinc(double x) {
  if (x == 0.0) return 1.0;
  x *= std::numbers::pi;
  return std::sin(x) / x;
}

double lanczos_window(double x) { return x >= -3.0 && x < 3.0 ? sinc(x) * sinc(x / 3.0) : 0.0; }

struct Window {
  double (*weight)(double x);
  double support;  // half its width
};

Window window_of(Filter filter) {
  switch (filter) {
    case Filter::kBox:
      return {&box_window, 0.5};
    case Filter::kHamming:
      return {&hamming_window, 1.0};
    case Filter::kBicubic:
      return {&cubic, 2.0};
    case Filter::kLanczos:
      return {&lanczos_window, 3.0};
    case Filter::kNearest:
    case Filter::kBilinear:
      break;
  }
  return {&triangle, 1.0};
}

constexpr int kPillowBits = 32 - 8 - 2;

/// The most bits with which the greatest weight still is one of 16 bits.
int tensor_bits(double greatest) {
  int bits = 0;
  while (bits < kPillowBits && std::trunc(0.5 + greatest * (1 << (bits + 1))) < (1 << 15)) ++bits;
  return bits;
}

/// Halves go away from 0.
int32_t rounded(double value) {
  return static_cast<int32_t>(value < 0 ? value - 0.5 : value + 0.5);
}

}  // namespace

std::string_view to_string(Filter filter) {
  switch (filter) {
    case Filter::kNearest:
      return "nearest";
    case Filter::kBox:
      return "box";
    case Filter::kBilinear:
      return "bilinear";
    case Filter::kHamming:
      return "hamming";
    case Filter::kBicubic:
      return "bicubic";
    case Filter::kLanczos:
      return "lanczos";
  }
  return "unknown";
}

Taps::Taps(Filter filter, int64_t in, int64_t out, Reference reference) {
  const Window window = window_of(filter);
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double widened = std::max(scale, 1.0);
  const double support = window.support * widened;
  const double narrowed = 1.0 / widened;
  const int64_t most = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  width_ = (most + 1) / 2 * 2;
  const auto outputs = static_cast<size_t>(out);
  first_.resize(outputs);
  count_.resize(outputs);
  std::vector<double> weights(outputs * static_cast<size_t>(width_));
  double greatest = 0;
  for (size_t o = 0; o < outputs; ++o) {
    const double center = (static_cast<double>(o) + 0.5) * scale;
    const int64_t from = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
    const int64_t to = std::min<int64_t>(static_cast<int64_t>(center + support + 0.5), in);
    const int64_t count = std::clamp<int64_t>(to - from, 0, most);
    double* row = &weights[o * static_cast<size_t>(width_)];
    double total = 0;
    for (int64_t t = 0; t < count; ++t) {
      row[t] = window.weight((static_cast<double>(t + from) - center + 0.5) * narrowed);
      total += row[t];
    }
    for (int64_t t = 0; t < count && total != 0.0; ++t) {
      row[t] /= total;
      greatest = std::max(greatest, row[t]);
    }
    first_[o] = static_cast<int32_t>(from);
    count_[o] = static_cast<int32_t>(count);
  }
  const bool in_16_bits = reference == Reference::kTensor;
  bits_ = in_16_bits ? tensor_bits(greatest) : kPillowBits;
  low_.resize(weights.size());
  if (!in_16_bits) high_.resize(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    const int32_t weight = rounded(weights[i] * (1 << bits_));
    low_[i] = static_cast<int16_t>(in_16_bits ? weight : weight & ((1 << kHighShift) - 1));
    if (!in_16_bits) high_[i] = static_cast<int16_t>(weight >> kHighShift);
  }
}

TapTable Taps::table() const {
  return {.first = first_.data(),
          .count = count_.data(),
          .low = low_.data(),
          .high = high_.empty() ? nullptr : high_.data(),
          .outputs = static_cast<int64_t>(first_.size()),
          .width = width_,
          .bits = bits_};
}

std::vector<int32_t> nearest_places(int64_t in, int64_t out) {
  std::vector<int32_t> places(static_cast<size_t>(out));
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  double place = scale * 0.5;
  for (int32_t& at : places) {
    at = static_cast<int32_t>(std::min<int64_t>(static_cast<int64_t>(place), in - 1));
    place += scale;
  }
  return places;
}

}  // namespace muster::image
