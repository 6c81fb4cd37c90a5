// Points of an image, moved as its pixels are: torchvision's keypoints.
#pragma once

#include <functional>

#include <ATen/core/Tensor.h>

#include "muster/data/functional/warp.h"
#include "muster/image/resample/resize.h"

namespace muster::data::functional {

// Keypoints are [..., 2] of float32 or float64: x and y, where 0 is the middle of the first pixel as
// torchvision flips them (width - 1 - x), and its corner as it turns them. Sizes are the image's before
// the change. Results are new tensors of the dtype.

/// Where points [P, 2] go.
using PointMap = std::function<at::Tensor(const at::Tensor& points)>;

PointMap affine_map(const image::Size& size, const Affine& change);
/// With `expand` they are measured from the corner of the image that became larger.
PointMap rotation_map(const image::Size& size, const Rotation& rotation);
/// `coefficients` as perspective() takes them. Throws a usage error for those that have no inverse.
PointMap perspective_map(const PerspectiveCoefficients& coefficients);

at::Tensor horizontal_flip_keypoints(const at::Tensor& keypoints, int64_t width);
at::Tensor vertical_flip_keypoints(const at::Tensor& keypoints, int64_t height);
at::Tensor move_keypoints(const at::Tensor& keypoints, double x, double y);
at::Tensor resize_keypoints(const at::Tensor& keypoints,
                            const image::Size& from,
                            const image::Size& to);
at::Tensor map_keypoints(const at::Tensor& keypoints, const PointMap& map);

/// The ratios of width and height, of float32 as torchvision's. // [2]
at::Tensor size_ratios(const image::Size& from, const image::Size& to);

}  // namespace muster::data::functional
