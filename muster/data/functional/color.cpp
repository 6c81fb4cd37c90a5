#include "muster/data/functional/color.h"

#include <cmath>
#include <utility>

#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/pad.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/functional/pixels.h"
#include "muster/image/color/color.h"

namespace muster::data::functional {
namespace {

bool is_bytes(const at::Tensor& image) { return image.scalar_type() == at::kByte; }

[[noreturn]] void refuse_color(std::string_view what, std::string rule, std::string value) {
  throw usage_error(
      {.refused = std::string(what), .rule = std::move(rule), .value = std::move(value)});
}

void check_colors(std::string_view what, const at::Tensor& image) {
  check_image(what, image);
  if (image.size(0) != 1 && image.size(0) != 3)
    refuse_color(concat(what, " of an image"), "it has 1 or 3 channels", concat(image.size(0)));
}

void check_factor(std::string_view what, double factor) {
  if (!(factor >= 0)) refuse_color(what, "the factor is at least 0", shortest(factor));
}

/// A new image that `change(pixels, new pixels)` fills.
template <class Change>
at::Tensor changed_bytes(const at::Tensor& image, int64_t channels, Change change) {
  const HeldPixels held = pixels_of(image);
  at::Tensor out = new_bytes(channels, image.size(1), image.size(2));
  change(held.pixels, pixels_to_fill(out));
  return out;
}

at::Tensor by_table(const at::Tensor& image, const image::ByteTable& table) {
  return changed_bytes(image, image.size(0), [&](const auto& in, const auto& out) {
    image::apply_table(in, out, table);
  });
}

/// [1, H, W] of floats, not rounded. Of bytes, too.
at::Tensor gray_floats(const at::Tensor& image) {
  return image.select(0, 0)
      .mul(0.2989)
      .add_(image.select(0, 1), 0.587)
      .add_(image.select(0, 2), 0.114)
      .unsqueeze(0);
}

at::Tensor blended(const at::Tensor& image, const at::Tensor& other, double ratio) {
  return image.mul(ratio).add_(other, 1.0 - ratio).clamp_(0, 1);
}

/// torch.mean over the gray of bytes. A sum below 2^24 is exact in float32, however it is added up.
float gray_mean(const at::Tensor& image) {
  const HeldPixels held = pixels_of(image);
  const int64_t sum = image::gray_sum(held.pixels);
  if (sum < int64_t{1} << 24)
    return static_cast<float>(sum) / static_cast<float>(image.size(1) * image.size(2));
  const at::Tensor gray = image.size(0) == 3 ? gray_floats(image).floor_() : image.to(at::kFloat);
  return at::mean(gray, {-3, -2, -1}, /*keepdim=*/true).item<float>();
}

at::Tensor one_dimensional_gaussian(int64_t size, double sigma, at::ScalarType dtype) {
  const double limit = static_cast<double>(size - 1) / (2.0 * std::sqrt(2.0));
  const at::Tensor x = at::linspace(-limit, limit, size, dtype);
  return at::softmax(x.div(sigma).pow(2).neg(), 0);
}

}  // namespace

at::Tensor grayscale(const at::Tensor& image, int64_t channels) {
  check_colors("grayscale", image);
  if (channels != 1 && channels != 3)
    refuse_color("grayscale", "to 1 or 3 channels", concat(channels));
  at::Tensor gray = image;
  if (image.size(0) == 3 && is_bytes(image)) {
    gray =
        changed_bytes(image, 1, [](const auto& in, const auto& out) { image::grayscale(in, out); });
  } else if (image.size(0) == 3) {
    gray = gray_floats(image).to(image.scalar_type());
  }
  if (channels == 3) return gray.expand({3, image.size(1), image.size(2)}).contiguous();
  return gray.is_same(image) ? image.clone() : gray;
}

at::Tensor adjust_brightness(const at::Tensor& image, double factor) {
  check_colors("adjust_brightness", image);
  check_factor("adjust_brightness", factor);
  if (is_bytes(image)) return by_table(image, image::brightness_table(factor));
  return image.mul(factor).clamp_(0, 1);
}

at::Tensor adjust_contrast(const at::Tensor& image, double factor) {
  check_colors("adjust_contrast", image);
  check_factor("adjust_contrast", factor);
  if (is_bytes(image)) return by_table(image, image::blend_table(factor, gray_mean(image)));
  const at::Tensor gray = image.size(0) == 3 ? gray_floats(image) : image;
  return blended(image, at::mean(gray, {-3, -2, -1}, /*keepdim=*/true), factor);
}

at::Tensor adjust_saturation(const at::Tensor& image, double factor) {
  check_colors("adjust_saturation", image);
  check_factor("adjust_saturation", factor);
  if (image.size(0) == 1) return image.clone();
  if (!is_bytes(image)) return blended(image, gray_floats(image), factor);
  return changed_bytes(image, 3, [&](const auto& in, const auto& out) {
    image::adjust_saturation(in, out, factor);
  });
}

at::Tensor adjust_hue(const at::Tensor& image, double factor) {
  check_colors("adjust_hue", image);
  if (!(factor >= -0.5 && factor <= 0.5))
    refuse_color("adjust_hue", "the factor is in -0.5 … 0.5", shortest(factor));
  if (image.size(0) == 1) return image.clone();
  if (is_bytes(image)) {
    return changed_bytes(
        image, 3, [&](const auto& in, const auto& out) { image::adjust_hue(in, out, factor); });
  }
  const at::Tensor floats = image.to(at::kFloat).contiguous();
  at::Tensor out = at::empty_like(floats);
  image::adjust_hue_of_floats(floats.const_data_ptr<float>(),
                              out.mutable_data_ptr<float>(),
                              image.size(1) * image.size(2),
                              factor);
  return out.to(image.scalar_type());
}

at::Tensor adjust_sharpness(const at::Tensor& image, double factor) {
  check_colors("adjust_sharpness", image);
  check_factor("adjust_sharpness", factor);
  if (image.size(1) <= 2 || image.size(2) <= 2) return image.clone();
  if (is_bytes(image)) {
    return changed_bytes(image, image.size(0), [&](const auto& in, const auto& out) {
      image::adjust_sharpness(in, out, factor);
    });
  }
  const double a = 1.0 / 13.0, b = 5.0 / 13.0;
  const at::Tensor kernel = at::tensor({a, a, a, a, b, a, a, a, a}, image.scalar_type())
                                .view({3, 3})
                                .expand({image.size(0), 1, 3, 3});
  at::Tensor out = image.clone();
  const at::Tensor blurred =
      at::conv2d(out.unsqueeze(0), kernel, {}, 1, at::IntArrayRef{0}, 1, image.size(0)).squeeze(0);
  at::Tensor inside = out.narrow(1, 1, image.size(1) - 2).narrow(2, 1, image.size(2) - 2);
  inside.add_(blurred.sub(inside), 1.0 - factor);
  return out.clamp_(0, 1);
}

at::Tensor invert(const at::Tensor& image) {
  check_image("invert", image);
  return is_bytes(image) ? image.bitwise_not() : image.neg().add_(1);
}

at::Tensor posterize(const at::Tensor& image, int64_t bits) {
  check_image("posterize", image);
  if (bits < 0 || bits > 8) refuse_color("posterize", "bits are in 0 … 8", concat(bits));
  if (is_bytes(image)) return image.bitwise_and(((1 << bits) - 1) << (8 - bits));
  const auto levels = static_cast<double>(int64_t{1} << bits);
  return image.mul(levels).floor_().clamp_(0, levels - 1).mul_(1.0 / levels);
}

at::Tensor solarize(const at::Tensor& image, double threshold) {
  check_image("solarize", image);
  const double most = is_bytes(image) ? 255 : 1;
  if (!(threshold <= most))
    refuse_color("solarize", concat("the threshold is at most ", most), shortest(threshold));
  if (is_bytes(image)) return by_table(image, image::solarize_table(threshold));
  return at::where(image.ge(threshold), invert(image), image);
}

at::Tensor autocontrast(const at::Tensor& image) {
  check_colors("autocontrast", image);
  if (is_bytes(image)) {
    return changed_bytes(image, image.size(0), [](const auto& in, const auto& out) {
      image::autocontrast(in, out);
    });
  }
  at::Tensor least = image.amin({-2, -1}, true), greatest = image.amax({-2, -1}, true);
  const at::Tensor flat = greatest.eq(least);
  at::Tensor scale = greatest.sub_(least).mul_(1.0);
  least.masked_fill_(flat, 0);
  scale.masked_fill_(flat, 1);
  return image.sub(least).div_(scale).clamp_(0, 1);
}

at::Tensor equalize(const at::Tensor& image) {
  check_image("equalize", image);
  if (is_bytes(image)) {
    return changed_bytes(
        image, image.size(0), [](const auto& in, const auto& out) { image::equalize(in, out); });
  }
  return to_dtype(equalize(to_dtype(image, at::kByte, true)), image.scalar_type(), true);
}

at::Tensor gaussian_blur(const at::Tensor& image,
                         int64_t kernel_height,
                         int64_t kernel_width,
                         double sigma) {
  check_image("gaussian_blur", image);
  for (const auto& [kernel, side] :
       {std::pair{kernel_height, image.size(1)}, std::pair{kernel_width, image.size(2)}}) {
    if (kernel < 1 || kernel % 2 == 0 || kernel / 2 >= side)
      refuse_color(
          "gaussian_blur",
          concat("a kernel is odd, and less than half of it reaches beyond ", side, " pixels"),
          concat(kernel));
  }
  if (!(sigma > 0)) refuse_color("gaussian_blur", "sigma is above 0", shortest(sigma));
  const at::ScalarType dtype = is_bytes(image) ? at::kFloat : image.scalar_type();
  const at::Tensor along_width = one_dimensional_gaussian(kernel_width, sigma, dtype);
  const at::Tensor along_height = one_dimensional_gaussian(kernel_height, sigma, dtype);
  const at::Tensor kernel = along_height.unsqueeze(-1)
                                .mul(along_width)
                                .expand({image.size(0), 1, kernel_height, kernel_width});
  const int64_t x = kernel_width / 2, y = kernel_height / 2;
  const at::Tensor padded = at::pad(image.to(dtype).unsqueeze(0), {x, x, y, y}, "reflect");
  at::Tensor blurred =
      at::conv2d(padded, kernel, {}, 1, at::IntArrayRef{0}, 1, image.size(0)).squeeze(0);
  return is_bytes(image) ? blurred.round_().to(at::kByte) : blurred;
}

at::Tensor to_dtype(const at::Tensor& image, at::ScalarType dtype, bool scale) {
  check_image("to_dtype", image);
  if (image.scalar_type() == dtype) return image;
  const bool to_bytes = dtype == at::kByte;
  if (!scale || (!is_bytes(image) && !to_bytes)) return image.to(dtype);
  if (to_bytes) return image.mul(255.0 + 1.0 - 1e-3).to(dtype);
  return image.to(dtype).mul_(1.0 / 255.0);
}

}  // namespace muster::data::functional
