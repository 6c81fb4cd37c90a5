// Images in another size, as torchvision.transforms.v2.functional has it.
#pragma once

#include <optional>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "muster/image/resample/resize.h"

namespace muster::data::functional {

enum class Interpolation { kNearest, kNearestExact, kBilinear, kBicubic, kLanczos, kBox, kHamming };

/// "nearest", "nearest-exact", "bilinear", "bicubic", "lanczos", "box", "hamming": torchvision's names.
std::string_view to_string(Interpolation interpolation);
/// Nothing for another name.
std::optional<Interpolation> interpolation_of(std::string_view name);

struct ResizeOptions {
  Interpolation interpolation = Interpolation::kBilinear;
  bool antialias = true;
  /// kTensor: torchvision's Resize of a tensor. kPillow: of a PIL image, for uint8 of 1 or 3 channels.
  image::Reference reference = image::Reference::kTensor;
};

/// Throws a usage error, which names `what`, for options that do not go together: lanczos without
/// antialias; box and hamming, which torchvision's tensors do not have; Pillow's nearest-exact, or
/// without antialias.
void check_resize(std::string_view what, const ResizeOptions& options);

/// image // [C, H, W] uint8, float32 or float64, on the CPU  ->  [C, height, width] of its dtype. Itself
/// where it has that size. uint8: every byte is the reference's (with kTensor, of LibTorch's AVX2
/// kernels, on any processor, but for nearest and without antialias, which LibTorch does). Floats are
/// LibTorch's own, not clamped. Throws a usage error for other images, or sizes below 1.
at::Tensor resize(const at::Tensor& image,
                  int64_t height,
                  int64_t width,
                  const ResizeOptions& options = {});

}  // namespace muster::data::functional
