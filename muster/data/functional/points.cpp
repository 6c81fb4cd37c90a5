#include "muster/data/functional/points.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>

#include "muster/base/error.h"
#include "muster/data/functional/affine_matrix.h"

namespace muster::data::functional {
namespace {

/// [P, 2]  ->  [P, 3]: x, y, 1
at::Tensor with_ones(const at::Tensor& points) {
  return at::cat({points, at::ones({points.size(0), 1}, points.options())}, 1);
}

at::Tensor transposed(const AffineMatrix& matrix, at::ScalarType dtype) {
  return at::tensor(at::ArrayRef<double>(matrix), dtype).view({2, 3}).t();
}

Point middle_of(const image::Size& size) {
  return {static_cast<double>(size.width) * 0.5, static_cast<double>(size.height) * 0.5};
}

}  // namespace

PointMap affine_map(const image::Size& size, const Affine& change) {
  const AffineMatrix matrix = affine_matrix(change, change.center.value_or(middle_of(size)));
  return [matrix](const at::Tensor& points) {
    return at::matmul(with_ones(points), transposed(matrix, points.scalar_type()));
  };
}

PointMap rotation_map(const image::Size& size, const Rotation& rotation) {
  const PointMap turn = affine_map(size, {.angle = -rotation.angle, .center = rotation.center});
  if (!rotation.expand) return turn;
  return [=](const at::Tensor& points) {
    const auto height = static_cast<double>(size.height), width = static_cast<double>(size.width);
    const at::Tensor corners =
        at::tensor({0.0, 0.0, 0.0, height, width, height, width, 0.0}, points.scalar_type())
            .view({4, 2});
    return turn(points).sub_(turn(corners).amin(0, /*keepdim=*/true));
  };
}

PointMap perspective_map(const PerspectiveCoefficients& k) {
  const double determinant = k[0] * k[4] - k[1] * k[3];
  if (determinant == 0)
    throw usage_error({.refused = "perspective of points", .rule = "its matrix has an inverse"});
  const auto over = [determinant](double value) { return value / determinant; };
  const std::array<double, 6> above{over(k[4] - k[5] * k[7]),
                                    over(-k[1] + k[2] * k[7]),
                                    over(k[1] * k[5] - k[2] * k[4]),
                                    over(-k[3] + k[5] * k[6]),
                                    over(k[0] - k[2] * k[6]),
                                    over(-k[0] * k[5] + k[2] * k[3])};
  const double g = over(-k[4] * k[6] + k[3] * k[7]), h = over(-k[0] * k[7] + k[1] * k[6]);
  const std::array<double, 6> below{g, h, 1, g, h, 1};
  return [above, below](const at::Tensor& points) {
    const at::Tensor ones = with_ones(points);
    const at::ScalarType dtype = points.scalar_type();
    return at::matmul(ones, transposed(above, dtype))
        .div_(at::matmul(ones, transposed(below, dtype)));
  };
}

at::Tensor horizontal_flip_keypoints(const at::Tensor& keypoints, int64_t width) {
  at::Tensor out = keypoints.clone();
  out.select(-1, 0).sub_(width - 1).neg_();
  return out;
}

at::Tensor vertical_flip_keypoints(const at::Tensor& keypoints, int64_t height) {
  at::Tensor out = keypoints.clone();
  out.select(-1, 1).sub_(height - 1).neg_();
  return out;
}

at::Tensor move_keypoints(const at::Tensor& keypoints, double x, double y) {
  return keypoints.add(at::tensor({x, y}, keypoints.scalar_type()));
}

at::Tensor size_ratios(const image::Size& from, const image::Size& to) {
  return at::tensor({static_cast<double>(to.width) / static_cast<double>(from.width),
                     static_cast<double>(to.height) / static_cast<double>(from.height)},
                    at::kFloat);
}

at::Tensor resize_keypoints(const at::Tensor& keypoints,
                            const image::Size& from,
                            const image::Size& to) {
  return keypoints.mul(size_ratios(from, to));
}

at::Tensor map_keypoints(const at::Tensor& keypoints, const PointMap& map) {
  return map(keypoints.reshape({-1, 2})).reshape(keypoints.sizes());
}

}  // namespace muster::data::functional
