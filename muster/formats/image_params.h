// What a user says of images of their own, wherever they lie. Torch-free.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "muster/base/params.h"

namespace muster::formats {

/// What folders and shards have in common. Their own options derive from it.
struct ImageDataOptions {
  int64_t size = 0;
  std::string bad_files = "raise";
  bool keep_damaged = false;
  std::string normalize = "imagenet";
  double test_fraction = 0.2;
  int64_t split_seed = 0;
};

namespace detail {

/// A parameter of ImageDataOptions, of options that derive from them.
template <class Options, auto Member>
consteval Param inherited_param(std::string_view name, std::string_view help) {
  Param out = param<Member>(name, help);
  out.set = [](void* options, std::string_view text) {
    ImageDataOptions* common = static_cast<Options*>(options);
    param<Member>("", "").set(common, text);
  };
  out.show = [](const void* options) {
    const ImageDataOptions* common = static_cast<const Options*>(options);
    return param<Member>("", "").show(common);
  };
  return out;
}

}  // namespace detail

/// The common parameters behind `own`, those of `Options` alone.
template <class Options, size_t N>
consteval auto with_image_params(const std::array<Param, N>& own) {
  using O = ImageDataOptions;
  const std::array common{
      detail::inherited_param<Options, &O::size>(
          "size", "height and width that all images are fitted to; 0: as they are"),
      detail::inherited_param<Options, &O::bad_files>(
          "bad_files", "that cannot be decoded: raise, skip or substitute"),
      detail::inherited_param<Options, &O::keep_damaged>(
          "keep_damaged", "take JPEGs whose data are damaged, as Pillow does"),
      detail::inherited_param<Options, &O::normalize>("normalize",
                                                      "by mean and deviation of imagenet, or none"),
      detail::inherited_param<Options, &O::test_fraction>(
          "test_fraction", "held out of each class where no test samples are said"),
      detail::inherited_param<Options, &O::split_seed>("split_seed", "which ones these are"),
  };
  std::array<Param, N + common.size()> all{};
  for (size_t i = 0; i < all.size(); ++i) all[i] = i < N ? own[i] : common[i - N];
  return all;
}

/// Throws a usage error of a parameter of `owner`, "dataset folder", for a value without sense.
void check_image_params(std::string_view owner, const ImageDataOptions& options);

}  // namespace muster::formats
