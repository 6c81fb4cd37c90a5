// What a user says of images of their own, wherever they lie. Torch-free.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "muster/base/params.h"

namespace muster::formats {

/// What folders and shards have in common. Their own options derive from it.
struct ImageDataOptions {
  int64_t size = 0;
  std::string bad_files = "raise";
  bool keep_damaged = false;
  std::string decode = "exact";
  std::string normalize = "imagenet";
  double test_fraction = 0.2;
  int64_t split_seed = 0;
};

inline constexpr std::array kImageDataParams{
    param<&ImageDataOptions::size>(
        "size", "height and width that all images are fitted to; 0: as they are"),
    param<&ImageDataOptions::bad_files>("bad_files",
                                        "that cannot be decoded: raise, skip or substitute"),
    param<&ImageDataOptions::keep_damaged>("keep_damaged",
                                           "take JPEGs whose data are damaged, as Pillow does"),
    param<&ImageDataOptions::decode>(
        "decode", "exact, or fast: large JPEGs at 1/2, 1/4 or 1/8, and other pixels; with size"),
    param<&ImageDataOptions::normalize>("normalize", "by mean and deviation of imagenet, or none"),
    param<&ImageDataOptions::test_fraction>(
        "test_fraction", "held out of each class where no test samples are said"),
    param<&ImageDataOptions::split_seed>("split_seed", "which ones these are"),
};

namespace detail {

/// One of these, of options that derive from them.
template <class Options, size_t I>
constexpr Param inherited_param() {
  Param out = kImageDataParams[I];
  out.set = [](void* options, std::string_view text) {
    ImageDataOptions* common = static_cast<Options*>(options);
    kImageDataParams[I].set(common, text);
  };
  out.show = [](const void* options) {
    const ImageDataOptions* common = static_cast<const Options*>(options);
    return kImageDataParams[I].show(common);
  };
  return out;
}

template <class Options, size_t N, size_t... I>
constexpr auto joined_params(const std::array<Param, N>& own, std::index_sequence<I...>) {
  std::array<Param, N + sizeof...(I)> all{};
  for (size_t i = 0; i < N; ++i) all[i] = own[i];
  ((all[N + I] = inherited_param<Options, I>()), ...);
  return all;
}

}  // namespace detail

/// The common parameters behind `own`, those of `Options` alone.
template <class Options, size_t N>
constexpr auto with_image_params(const std::array<Param, N>& own) {
  return detail::joined_params<Options>(own, std::make_index_sequence<kImageDataParams.size()>());
}

/// ImageOptions::least_side for these options: their size where they say decode=fast, else 0.
inline int64_t least_side_of(const ImageDataOptions& options) {
  return options.decode == "fast" ? options.size : 0;
}

/// Throws a usage error of a parameter of `owner`, "dataset folder", for a value without sense.
void check_image_params(std::string_view owner, const ImageDataOptions& options);

}  // namespace muster::formats
