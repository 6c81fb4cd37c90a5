// What holds of every image file.
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

#include "muster/base/error.h"
#include "muster/formats/image/image.h"

#include "tests/fuzz/fuzz.h"

namespace muster::fuzz {

inline constexpr int64_t kMostPixels = 1 << 15;

template <class Call>
std::optional<formats::Image> decoded(const Call& call) {
  try {
    return call();
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kEnvironment, "a bad file is an environment error");
    return std::nullopt;
  }
}

/// A region that the file's own bytes choose.
inline formats::ImageRegion region_within(const formats::Image& image,
                                          std::span<const uint8_t> file) {
  uint64_t state = file.size();
  for (const uint8_t byte : file.last(std::min<size_t>(file.size(), 16))) state = state * 31 + byte;
  const auto below = [&state](int64_t limit) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(limit));
  };
  formats::ImageRegion region{.top = below(image.height), .left = below(image.width)};
  region.height = 1 + below(image.height - region.top);
  region.width = 1 + below(image.width - region.left);
  return region;
}

inline void check_image(std::span<const uint8_t> file, bool keep_damaged) {
  const formats::ImageOptions options{.max_pixels = kMostPixels, .keep_damaged = keep_damaged};
  const auto whole = decoded([&] { return formats::decode_image(file, "fuzz", options); });
  if (!whole) return;
  const formats::ImageHeader header = formats::read_image_header(file, "fuzz", options);
  require(whole->height == header.height && whole->width == header.width,
          "the size is the header's");
  require(whole->height * whole->width <= kMostPixels, "the limit holds");
  formats::ImageOptions smaller = options;
  smaller.least_side = 1 + std::min(whole->height, whole->width) / 5;
  const auto small = decoded([&] { return formats::decode_image(file, "fuzz", smaller); });
  require(small.has_value(), "what decodes does so at a part of its size, too");
  require(small->height <= whole->height && small->width <= whole->width, "it is no larger");
  const formats::ImageRegion region = region_within(*whole, file);
  const auto part = decoded([&] { return formats::decode_image(file, "fuzz", region, options); });
  require(part.has_value(), "a part of what decodes does, too");
  if (!whole->complaint.empty()) return;
  for (int64_t y = 0; y < region.height; ++y) {
    require(std::memcmp(part->pixels.get() + y * region.width * 3,
                        whole->pixels.get() + ((region.top + y) * whole->width + region.left) * 3,
                        static_cast<size_t>(region.width) * 3) == 0,
            "a part has the bytes of the whole");
  }
}

}  // namespace muster::fuzz
