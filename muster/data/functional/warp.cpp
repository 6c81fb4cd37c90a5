#include "muster/data/functional/warp.h"

#include <cmath>
#include <vector>

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/grid_sampler.h>
#include <ATen/ops/linalg_lstsq.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rot90.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/functional/affine_matrix.h"
#include "muster/data/functional/pixels.h"

namespace muster::data::functional {
namespace {

void check_warp(std::string_view what,
                const at::Tensor& image,
                Interpolation interpolation,
                const Fill& fill) {
  check_image(what, image);
  if (interpolation != Interpolation::kNearest && interpolation != Interpolation::kBilinear)
    throw usage_error({.refused = concat(what, " of an image"),
                       .rule = "the interpolation is nearest or bilinear",
                       .value = std::string(to_string(interpolation))});
  if (fill && fill->size() != 1 && static_cast<int64_t>(fill->size()) != image.size(0))
    throw usage_error({.refused = concat(what, " of an image"),
                       .rule = concat("one fill, or one for each of ", image.size(0), " channels"),
                       .value = concat(fill->size())});
}

at::ScalarType grid_dtype(const at::Tensor& image) {
  return image.scalar_type() == at::kByte ? at::kFloat : image.scalar_type();
}

/// [1, rows, columns, 3]: x, y and 1 of each pixel.
at::Tensor base_grid(at::IntArrayRef size,
                     const at::Tensor& columns,
                     const at::Tensor& rows,
                     at::ScalarType dtype) {
  at::Tensor grid = at::empty({1, size[0], size[1], 3}, dtype);
  grid.select(-1, 0).copy_(columns);
  grid.select(-1, 1).copy_(rows.unsqueeze(-1));
  grid.select(-1, 2).fill_(1);
  return grid.view({1, size[0] * size[1], 3});
}

at::Tensor affine_grid(const AffineMatrix& matrix,
                       int64_t height,
                       int64_t width,
                       int64_t out_height,
                       int64_t out_width,
                       at::ScalarType dtype) {
  const auto centered = [](int64_t count) {
    const auto n = static_cast<double>(count);
    return at::linspace((1.0 - n) * 0.5, (n - 1.0) * 0.5, count, at::kFloat);
  };
  const at::Tensor theta = at::tensor(at::ArrayRef<double>(matrix), dtype).reshape({1, 2, 3});
  const at::Tensor half =
      at::tensor({0.5 * static_cast<double>(width), 0.5 * static_cast<double>(height)}, dtype);
  const at::Tensor scaled = theta.transpose(1, 2).div_(half);
  const std::array<int64_t, 2> size{out_height, out_width};
  return base_grid(size, centered(out_width), centered(out_height), dtype)
      .bmm(scaled)
      .view({1, out_height, out_width, 2});
}

at::Tensor sampled(const at::Tensor& image,
                   const at::Tensor& grid,
                   Interpolation interpolation,
                   const Fill& fill) {
  const bool nearest = interpolation == Interpolation::kNearest;
  at::Tensor floats = image.to(grid.scalar_type()).unsqueeze(0);
  if (fill) {
    floats = at::cat({floats, at::ones({1, 1, image.size(1), image.size(2)}, floats.options())}, 1);
  }
  constexpr int64_t kBilinearMode = 0, kNearestMode = 1, kZeros = 0;
  at::Tensor out =
      at::grid_sampler(floats, grid, nearest ? kNearestMode : kBilinearMode, kZeros, false);
  if (fill) {
    const at::Tensor mask = out.narrow(1, image.size(0), 1).expand({1, image.size(0), -1, -1});
    const at::Tensor values =
        at::tensor(at::ArrayRef<double>(fill->data(), fill->size()), out.scalar_type())
            .view({1, -1, 1, 1});
    out = out.narrow(1, 0, image.size(0));
    out = nearest ? at::where(mask.lt(0.5), values, out) : out.sub_(values).mul_(mask).add_(values);
  }
  if (out.scalar_type() != image.scalar_type()) out = out.round_().to(image.scalar_type());
  return out.squeeze(0).contiguous();
}

/// Height and width that hold the turned corners: of float32, cut to 1e-4 as torchvision does.
std::array<int64_t, 2> turned_size(const AffineMatrix& matrix, int64_t height, int64_t width) {
  const double w = 0.5 * static_cast<double>(width), h = 0.5 * static_cast<double>(height);
  const at::Tensor corners =
      at::tensor({-w, -h, 1.0, -w, h, 1.0, w, h, 1.0, w, -h, 1.0}, at::kFloat).view({4, 3});
  const at::Tensor theta = at::tensor(at::ArrayRef<double>(matrix), at::kFloat).view({2, 3});
  const at::Tensor turned = at::matmul(corners, theta.t());
  at::Tensor least = turned.amin(0), most = turned.amax(0);
  const at::Tensor halves = at::tensor({w, h}, at::kFloat);
  constexpr double kCut = 1e-4;
  const auto cut = [&](at::Tensor& ends) {
    return ends.add_(halves).mul_(1.0 / kCut).trunc_().mul_(kCut);
  };
  const at::Tensor size = cut(most).ceil_().sub_(cut(least).floor_());
  return {size[1].item<int64_t>(), size[0].item<int64_t>()};
}

double python_modulo(double value, double by) {
  const double rest = std::fmod(value, by);
  return rest < 0 ? rest + by : rest == 0 ? 0 : rest;
}

Point from_middle(const std::optional<Point>& center, const at::Tensor& image) {
  if (!center) return {};
  return {center->x - static_cast<double>(image.size(2)) * 0.5,
          center->y - static_cast<double>(image.size(1)) * 0.5};
}

/// Whole quarters turn without sampling; nothing for other angles.
std::optional<int64_t> quarters(const Rotation& rotation, double angle, const at::Tensor& image) {
  if (rotation.center) return std::nullopt;
  if (angle == 0) return 0;
  if (angle == 180) return 2;
  if (!rotation.expand && image.size(1) != image.size(2)) return std::nullopt;
  if (angle == 90) return 1;
  if (angle == 270) return 3;
  return std::nullopt;
}

}  // namespace

at::Tensor affine(const at::Tensor& image,
                  const Affine& change,
                  Interpolation interpolation,
                  const Fill& fill) {
  check_warp("affine", image, interpolation, fill);
  if (!(change.scale > 0))
    throw usage_error({.refused = "affine of an image",
                       .rule = "the scale is above 0",
                       .value = shortest(change.scale)});
  const AffineMatrix matrix = inverse_affine_matrix(change, from_middle(change.center, image));
  const int64_t height = image.size(1), width = image.size(2);
  return sampled(image,
                 affine_grid(matrix, height, width, height, width, grid_dtype(image)),
                 interpolation,
                 fill);
}

at::Tensor rotate(const at::Tensor& image,
                  const Rotation& rotation,
                  Interpolation interpolation,
                  const Fill& fill) {
  check_warp("rotate", image, interpolation, fill);
  const double angle = python_modulo(rotation.angle, 360);
  if (const auto turns = quarters(rotation, angle, image))
    return *turns == 0 ? image.clone() : at::rot90(image, *turns, {-2, -1}).contiguous();
  const AffineMatrix matrix =
      inverse_affine_matrix({.angle = -angle}, from_middle(rotation.center, image));
  const int64_t height = image.size(1), width = image.size(2);
  const auto size =
      rotation.expand ? turned_size(matrix, height, width) : std::array<int64_t, 2>{height, width};
  return sampled(image,
                 affine_grid(matrix, height, width, size[0], size[1], grid_dtype(image)),
                 interpolation,
                 fill);
}

PerspectiveCoefficients perspective_coefficients(const std::array<Point, 4>& from,
                                                 const std::array<Point, 4>& to) {
  std::vector<double> rows, right;
  for (size_t i = 0; i < 4; ++i) {
    const Point& p = to[i];
    const Point& q = from[i];
    rows.insert(rows.end(), {p.x, p.y, 1, 0, 0, 0, -q.x * p.x, -q.x * p.y});
    rows.insert(rows.end(), {0, 0, 0, p.x, p.y, 1, -q.y * p.x, -q.y * p.y});
    right.insert(right.end(), {q.x, q.y});
  }
  const at::Tensor solution =
      std::get<0>(at::linalg_lstsq(at::tensor(rows, at::kDouble).view({8, 8}),
                                   at::tensor(right, at::kDouble),
                                   std::nullopt,
                                   "gels"))
          .to(at::kFloat);
  PerspectiveCoefficients coefficients{};
  for (int64_t i = 0; i < 8; ++i) coefficients[static_cast<size_t>(i)] = solution[i].item<float>();
  return coefficients;
}

at::Tensor perspective(const at::Tensor& image,
                       const PerspectiveCoefficients& k,
                       Interpolation interpolation,
                       const Fill& fill) {
  check_warp("perspective", image, interpolation, fill);
  const int64_t height = image.size(1), width = image.size(2);
  const at::ScalarType dtype = grid_dtype(image);
  const auto centers = [&](int64_t count) {
    return at::linspace(0.5, static_cast<double>(count) + 0.5 - 1.0, count, dtype);
  };
  const std::array<int64_t, 2> size{height, width};
  const at::Tensor base = base_grid(size, centers(width), centers(height), dtype);
  const at::Tensor above = at::tensor({k[0], k[1], k[2], k[3], k[4], k[5]}, dtype).view({1, 2, 3});
  const at::Tensor below = at::tensor({k[6], k[7], 1.0, k[6], k[7], 1.0}, dtype).view({1, 2, 3});
  const at::Tensor half =
      at::tensor({0.5 * static_cast<double>(width), 0.5 * static_cast<double>(height)}, dtype);
  const at::Tensor grid = base.bmm(above.transpose(1, 2).div_(half))
                              .div_(base.bmm(below.transpose(1, 2)))
                              .sub_(1.0)
                              .view({1, height, width, 2});
  return sampled(image, grid, interpolation, fill);
}

}  // namespace muster::data::functional
