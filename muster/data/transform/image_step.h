// Steps that change a sample's image, and their options.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/data/draws.h"
#include "muster/data/functional/pixels.h"
#include "muster/data/functional/place.h"
#include "muster/data/functional/resize.h"
#include "muster/data/functional/warp.h"
#include "muster/data/transform/transform.h"

namespace muster::data {

using ImageChange = std::function<at::Tensor(const at::Tensor& image, Draws& draws)>;

/// A step that puts `change(sample["data"], draws)` in its place, for changes that leave each pixel
/// where it is; others see placed_step.h. Images may differ in size from sample to sample: `change`
/// reads it from its tensor, and `spec` has 0 for a side that differs.
std::shared_ptr<const Transform> image_step(DataSpec spec, ImageChange change);

/// The same for a step that is done to a sample with probability `p`, for which one number is drawn.
std::shared_ptr<const Transform> image_step_with(double p, DataSpec spec, ImageChange change);

/// The same for a step of which nobody knows where pixels go. Throws a usage error that names
/// `transform` for a sample with targets (Note [Typed targets]).
std::shared_ptr<const Transform> image_step_without_targets(std::string_view transform,
                                                            DataSpec spec,
                                                            ImageChange change);

/// `change_all` is `change` of samples with targets.
std::shared_ptr<const Transform> image_step_with_targets(
    DataSpec spec,
    ImageChange change,
    std::function<void(Sample& sample, Draws& draws)> change_all);

/// `before` with images of another size, 0 for a side that differs.
DataSpec with_size(DataSpec before, int64_t height, int64_t width);

/// None is no fill at all, see functional::Fill.
inline functional::Fill fill_of(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  return values;
}

/// Reads the options of one transform: every error names it, the parameter, and the value.
class ImageOptions {
 public:
  explicit ImageOptions(std::string_view transform) : transform_(transform) {}

  [[noreturn]] void refuse(std::string_view name, std::string rule, std::string value) const;

  /// Height and width from one number, which stands for both, or two.
  image::Size size(std::string_view name, const std::vector<int64_t>& values) const;
  /// One number for all sides, two for left and right, top and bottom, or all four in the order left,
  /// top, right, bottom. None: 0.
  functional::Padding padding(const std::vector<int64_t>& values) const;
  /// None is 0. One, or one per channel; bytes are 0 … 255.
  void check_fill(const std::vector<double>& values,
                  const DataSpec& before,
                  std::string_view name = "fill") const;
  /// x stands for -x … x.
  std::array<double, 2> around_zero(std::string_view name, const std::vector<double>& values) const;
  /// [x, y], or nothing.
  std::optional<functional::Point> center(const std::vector<double>& values) const;
  /// Two numbers, the first at most the second, both in least … most.
  void check_range(std::string_view name,
                   const std::vector<double>& values,
                   double least,
                   double most) const;
  void check_in(std::string_view name, double value, double least, double most) const;
  void check_probability(double p) const { check_in("p", p, 0, 1); }
  /// 1 or 3 channels.
  void check_colors(const DataSpec& before) const;
  functional::Interpolation interpolation(const std::string& name) const;
  /// nearest or bilinear.
  functional::Interpolation sampling(const std::string& name) const;
  functional::ResizeOptions resize(const std::string& interpolation,
                                   bool antialias,
                                   const std::string& reference) const;
  image::Border border(const std::string& name) const;

 private:
  std::string transform_;
};

}  // namespace muster::data
