// The colours of pictures, by what they are for, so that each has a light and a dark one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace muster::track {

inline constexpr int kSeriesInks = 5;  ///< that tell kinds of things apart
inline constexpr int kScaleInks = 16;  ///< from the faintest to the strongest, for amounts

/// What is drawn with a colour.
enum class Ink : uint8_t {
  kNone,  ///< not drawn
  kText,
  kStrong,  ///< titles
  kDim,     ///< notes
  kPage,    ///< the ground
  kGrid,
  kAxis,
  kBad,                           ///< failures
  kSeries,                        ///< the first of kSeriesInks
  kScale = kSeries + kSeriesInks  ///< the first of kScaleInks
};
inline constexpr int kInks = static_cast<int>(Ink::kScale) + kScaleInks;

/// The index-th of the colours that tell things apart; they repeat.
Ink series_ink(size_t index);

/// The colour of an amount: 0 is faint on the page, 1 stands out. Clamped; NaN is kDim.
Ink scale_ink(double share);

struct Rgb {
  uint8_t red = 0, green = 0, blue = 0;
};

/// On a white page and on a dark one. Not of kNone.
Rgb light_rgb(Ink ink);
Rgb dark_rgb(Ink ink);

/// "#1f6fd1".
std::string hex(Rgb colour);

}  // namespace muster::track
