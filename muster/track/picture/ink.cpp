#include "muster/track/picture/ink.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <span>

namespace muster::track {
namespace {

constexpr Rgb rgb(uint32_t hex) {
  return {
      static_cast<uint8_t>(hex >> 16), static_cast<uint8_t>(hex >> 8), static_cast<uint8_t>(hex)};
}

// The roles up to kBad, then the series: as the pages of runs have them.
constexpr size_t kPlainInks = static_cast<size_t>(Ink::kScale);
constexpr std::array<Rgb, kPlainInks> kLight = {rgb(0),
                                                rgb(0x3c4450),
                                                rgb(0x14181f),
                                                rgb(0x79828f),
                                                rgb(0xffffff),
                                                rgb(0xe6e9ee),
                                                rgb(0x98a1ae),
                                                rgb(0xc62828),
                                                rgb(0x1f6fd1),
                                                rgb(0xd3640a),
                                                rgb(0x13855a),
                                                rgb(0x8049c0),
                                                rgb(0xb0207a)};
constexpr std::array<Rgb, kPlainInks> kDark = {rgb(0),
                                               rgb(0xb9c1cc),
                                               rgb(0xeef1f5),
                                               rgb(0x8a94a2),
                                               rgb(0x14181f),
                                               rgb(0x262d37),
                                               rgb(0x657080),
                                               rgb(0xff7b72),
                                               rgb(0x6aa8f7),
                                               rgb(0xf39a4f),
                                               rgb(0x4cc79a),
                                               rgb(0xb990ee),
                                               rgb(0xee7dbd)};
// Lightness falls (rises) evenly, so that the order is seen without colours as well.
constexpr std::array<Rgb, 6> kLightScale = {
    rgb(0xd9dcc6), rgb(0x9fcab0), rgb(0x55a9ad), rgb(0x2f78ae), rgb(0x413f9b), rgb(0x3a0f57)};
constexpr std::array<Rgb, 6> kDarkScale = {
    rgb(0x343e4a), rgb(0x2b5f7d), rgb(0x2b8d92), rgb(0x5bb885), rgb(0xb4d96a), rgb(0xfff3a0)};

uint8_t mixed(uint8_t a, uint8_t b, double share) {
  return static_cast<uint8_t>(std::lround(a + (b - a) * share));
}

Rgb colour_at(std::span<const Rgb> stops, double share) {
  const double at = share * static_cast<double>(stops.size() - 1);
  const size_t from = std::min(static_cast<size_t>(at), stops.size() - 2);
  const double rest = at - static_cast<double>(from);
  const Rgb &a = stops[from], &b = stops[from + 1];
  return {mixed(a.red, b.red, rest), mixed(a.green, b.green, rest), mixed(a.blue, b.blue, rest)};
}

Rgb rgb_of(Ink ink, std::span<const Rgb> plain, std::span<const Rgb> scale) {
  const auto index = static_cast<size_t>(ink);
  if (index < kPlainInks) return plain[index];
  return colour_at(scale, static_cast<double>(index - kPlainInks) / (kScaleInks - 1));
}

}  // namespace

Ink series_ink(size_t index) {
  return static_cast<Ink>(static_cast<size_t>(Ink::kSeries) + index % kSeriesInks);
}

Ink scale_ink(double share) {
  if (std::isnan(share)) return Ink::kDim;
  const auto step = static_cast<int>(std::clamp(share, 0.0, 1.0) * kScaleInks);
  return static_cast<Ink>(static_cast<int>(Ink::kScale) + std::min(step, kScaleInks - 1));
}

Rgb light_rgb(Ink ink) { return rgb_of(ink, kLight, kLightScale); }

Rgb dark_rgb(Ink ink) { return rgb_of(ink, kDark, kDarkScale); }

std::string hex(Rgb colour) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "#%02x%02x%02x", colour.red, colour.green, colour.blue);
  return text.data();
}

}  // namespace muster::track
