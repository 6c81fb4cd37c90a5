#include "muster/data/functional/resize.h"

#include <array>
#include <utility>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_upsample_bicubic2d_aa.h>
#include <ATen/ops/_upsample_bilinear2d_aa.h>
#include <ATen/ops/_upsample_nearest_exact2d.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/upsample_bicubic2d.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/upsample_nearest2d.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/functional/pixels.h"
#include "muster/tensor/dtype_name.h"

namespace muster::data::functional {
namespace {

constexpr std::array<std::pair<Interpolation, std::string_view>, 7> kNames{
    {{Interpolation::kNearest, "nearest"},
     {Interpolation::kNearestExact, "nearest-exact"},
     {Interpolation::kBilinear, "bilinear"},
     {Interpolation::kBicubic, "bicubic"},
     {Interpolation::kLanczos, "lanczos"},
     {Interpolation::kBox, "box"},
     {Interpolation::kHamming, "hamming"}}};

image::Filter filter_of(Interpolation interpolation) {
  switch (interpolation) {
    case Interpolation::kNearest:
    case Interpolation::kNearestExact:
      return image::Filter::kNearest;
    case Interpolation::kBilinear:
      return image::Filter::kBilinear;
    case Interpolation::kBicubic:
      return image::Filter::kBicubic;
    case Interpolation::kLanczos:
      return image::Filter::kLanczos;
    case Interpolation::kBox:
      return image::Filter::kBox;
    case Interpolation::kHamming:
      return image::Filter::kHamming;
  }
  return image::Filter::kBilinear;
}

[[noreturn]] void refuse_resize(std::string_view what, std::string rule, std::string value) {
  throw usage_error(
      {.refused = std::string(what), .rule = std::move(rule), .value = std::move(value)});
}

/// LibTorch has it since 2.15.
at::Tensor lanczos_of_floats(const at::Tensor& images, at::IntArrayRef size) {
  const auto op = c10::Dispatcher::singleton().findSchema({"aten::_upsample_lanczos2d_aa", ""});
  if (!op) refuse_resize("resize of floats", "lanczos needs LibTorch 2.15", "an older one");
  using Call = at::Tensor(
      const at::Tensor&, c10::SymIntArrayRef, bool, std::optional<double>, std::optional<double>);
  return op->typed<Call>().call(
      images, c10::fromIntArrayRefSlow(size), false, std::nullopt, std::nullopt);
}

/// images // [1, C, H, W]
at::Tensor by_libtorch(const at::Tensor& images,
                       at::IntArrayRef size,
                       Interpolation interpolation,
                       bool antialias) {
  switch (interpolation) {
    case Interpolation::kNearest:
      return at::upsample_nearest2d(images, size);
    case Interpolation::kNearestExact:
      return at::_upsample_nearest_exact2d(images, size);
    case Interpolation::kBicubic:
      return antialias ? at::_upsample_bicubic2d_aa(images, size, false)
                       : at::upsample_bicubic2d(images, size, false);
    case Interpolation::kLanczos:
      return lanczos_of_floats(images, size);
    default:
      return antialias ? at::_upsample_bilinear2d_aa(images, size, false)
                       : at::upsample_bilinear2d(images, size, false);
  }
}

}  // namespace

std::string_view to_string(Interpolation interpolation) {
  for (const auto& [value, name] : kNames) {
    if (value == interpolation) return name;
  }
  return "unknown";
}

std::optional<Interpolation> interpolation_of(std::string_view name) {
  for (const auto& [value, known] : kNames) {
    if (known == name) return value;
  }
  return std::nullopt;
}

void check_resize(std::string_view what, const ResizeOptions& options) {
  const Interpolation by = options.interpolation;
  const bool of_pillow_alone = by == Interpolation::kBox || by == Interpolation::kHamming;
  if (options.reference == image::Reference::kPillow) {
    if (by == Interpolation::kNearestExact)
      refuse_resize(what, "Pillow has nearest, which is exact", std::string(to_string(by)));
    if (!options.antialias)
      refuse_resize(what, "Pillow always smooths what shrinks", "antialias=false");
  } else if (of_pillow_alone) {
    refuse_resize(what, "tensors have no such filter, Pillow has", std::string(to_string(by)));
  } else if (by == Interpolation::kLanczos && !options.antialias) {
    refuse_resize(what, "lanczos needs antialias", "antialias=false");
  }
}

at::Tensor resize(const at::Tensor& image,
                  int64_t height,
                  int64_t width,
                  const ResizeOptions& options) {
  check_image("resize", image);
  check_resize("resize", options);
  if (height < 1 || width < 1)
    refuse_resize(
        "resize of an image", "the new sides are at least 1", concat(height, " x ", width));
  if (image.size(1) == height && image.size(2) == width) return image;
  const bool is_bytes = image.scalar_type() == at::kByte;
  const bool pillow = options.reference == image::Reference::kPillow;
  if (pillow && !(is_bytes && (image.size(0) == 1 || image.size(0) == 3)))
    refuse_resize("resize as Pillow does",
                  "the image has bytes, and 1 or 3 channels",
                  concat(image.size(0), " channels of ", tensor::dtype_name(image.scalar_type())));
  const bool nearest = options.interpolation == Interpolation::kNearest ||
                       options.interpolation == Interpolation::kNearestExact;
  if (!pillow && (!is_bytes || nearest || !options.antialias)) {
    const std::array<int64_t, 2> size{height, width};
    // LibTorch's kernel of three channels of bytes takes a single pixel for another layout, and fails.
    if (is_bytes && image.size(0) == 3 && height == 1 && width == 1) {
      std::vector<at::Tensor> channels;
      for (const at::Tensor& channel : image.split(1))
        channels.push_back(
            by_libtorch(channel.unsqueeze(0), size, options.interpolation, options.antialias));
      return at::cat(channels, 1).squeeze(0);
    }
    return by_libtorch(image.unsqueeze(0), size, options.interpolation, options.antialias)
        .squeeze(0);
  }
  const HeldPixels held = pixels_of(image);
  at::Tensor resized = new_bytes(image.size(0), height, width);
  image::resize(
      held.pixels, pixels_to_fill(resized), filter_of(options.interpolation), options.reference);
  return resized;
}

}  // namespace muster::data::functional
