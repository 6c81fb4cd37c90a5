#include "muster/data/transform/targets.h"

#include <algorithm>
#include <cmath>

#include <ATen/ops/zeros.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/functional/warp.h"
#include "muster/tensor/dtype_name.h"

namespace muster::data {
namespace {

using functional::BoxFormat;
using functional::Interpolation;

constexpr std::string_view kBoxesName = "boxes";

[[noreturn]] void refuse_target(std::string_view name, std::string rule, const at::Tensor& given) {
  throw usage_error(
      {.refused = concat("tensor \"", name, "\" of a sample"),
       .rule = std::move(rule),
       .value = concat(given.sizes(), " of ", tensor::dtype_name(given.scalar_type()))});
}

bool has_floats(const at::Tensor& numbers) {
  return numbers.scalar_type() == at::kFloat || numbers.scalar_type() == at::kDouble;
}

void check_boxes(std::string_view name, const at::Tensor& boxes, BoxFormat format) {
  const int64_t numbers = functional::numbers_of(format);
  if (boxes.dim() == 2 && boxes.size(1) == numbers && has_floats(boxes)) return;
  refuse_target(name, concat("boxes are [N, ", numbers, "] of float32 or float64"), boxes);
}

void check_keypoints(std::string_view name, const at::Tensor& points) {
  if (points.dim() >= 1 && points.size(-1) == 2 && has_floats(points)) return;
  refuse_target(name, "keypoints are [..., 2] of float32 or float64", points);
}

void check_mask(std::string_view name, const at::Tensor& mask, const image::Size& size) {
  if ((mask.dim() == 2 || mask.dim() == 3) && mask.size(-2) == size.height &&
      mask.size(-1) == size.width)
    return;
  refuse_target(
      name, concat("a mask has the image's size, ", size.height, " x ", size.width), mask);
}

/// A change of images, done to a mask: integers that are no bytes go as float32, whole up to 2^24.
template <class Change>
at::Tensor changed_mask(const at::Tensor& mask, Change change) {
  const at::ScalarType own = mask.scalar_type();
  at::Tensor image = mask.dim() == 2 ? mask.unsqueeze(0) : mask;
  const bool is_bytes = own == at::kByte || own == at::kBool;
  if (!has_floats(mask)) image = image.to(is_bytes ? at::kByte : at::kFloat);
  const bool is_empty = image.size(0) == 0;
  if (is_empty) image = at::zeros({1, image.size(1), image.size(2)}, image.options());
  at::Tensor out = change(image).to(own);
  if (is_empty) out = out.narrow(0, 0, 0);
  return mask.dim() == 2 ? out.squeeze(0) : out;
}

/// Whether a tensor has a row for each of the boxes.
bool goes_with_boxes(std::string_view name,
                     const at::Tensor& tensor,
                     const BoxFilter& filter,
                     int64_t boxes) {
  if (std::find(filter.rows.begin(), filter.rows.end(), name) != filter.rows.end()) {
    if (tensor.dim() >= 1 && tensor.size(0) == boxes) return true;
    refuse_target(name, concat("it has a row for each of ", boxes, " boxes"), tensor);
  }
  const auto target = target_of(name);
  if (!target || target->kind == TargetKind::kBoxes) return false;
  return tensor.dim() == 3 && tensor.size(0) == boxes;
}

/// [N] bool
at::Tensor boxes_that_stay(const at::Tensor& boxes,
                           BoxFormat format,
                           const image::Size& size,
                           const BoxFilter& filter) {
  constexpr double kSlack = 1e-7;
  const functional::BoxAreas areas = functional::areas_of(boxes, format, size);
  const at::Tensor sides =
      functional::sides_of(functional::clamp_boxes(boxes, format, size), format);
  return sides.amin(1)
      .ge(filter.min_size - kSlack)
      .logical_and_(areas.inside.ge(filter.min_area - kSlack))
      .logical_and_(areas.inside.ge(areas.whole.mul(filter.min_visibility).sub(kSlack)))
      .logical_and_(areas.whole.gt(0));
}

}  // namespace

std::optional<TargetName> target_of(std::string_view name) {
  if (name == "mask" || name == "masks") return TargetName{TargetKind::kMask};
  if (name == "keypoints") return TargetName{TargetKind::kKeypoints};
  if (!name.starts_with(kBoxesName)) return std::nullopt;
  name.remove_prefix(kBoxesName.size());
  if (name.empty()) return TargetName{TargetKind::kBoxes};
  if (name.front() != '_') return std::nullopt;
  const auto format = functional::box_format_of(name.substr(1));
  if (!format) return std::nullopt;
  return TargetName{TargetKind::kBoxes, *format};
}

bool has_targets(const tensor::NamedTensorList& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const auto& named) {
    return target_of(named.first).has_value();
  });
}

Targets::Targets(Sample& sample, image::Size size) : sample_(sample), size_(size) {}

template <class Boxes, class Mask, class Points>
void Targets::each(Boxes boxes, Mask mask, Points points) {
  for (auto& [name, tensor] : sample_.tensors) {
    const auto target = target_of(name);
    if (!target) continue;
    switch (target->kind) {
      case TargetKind::kBoxes:
        check_boxes(name, tensor, target->format);
        tensor = boxes(tensor, target->format);
        break;
      case TargetKind::kMask:
        check_mask(name, tensor, size_);
        tensor = changed_mask(tensor, mask);
        break;
      case TargetKind::kKeypoints:
        check_keypoints(name, tensor);
        tensor = points(tensor);
        break;
    }
  }
}

template <class Mask>
void Targets::map(const functional::PointMap& to, Mask mask) {
  each([&](const at::Tensor& boxes,
           BoxFormat format) { return functional::map_boxes(boxes, format, to); },
       mask,
       [&](const at::Tensor& points) { return functional::map_keypoints(points, to); });
}

void Targets::horizontal_flip() {
  each(
      [&](const at::Tensor& boxes, BoxFormat format) {
        return functional::horizontal_flip_boxes(boxes, format, size_.width);
      },
      functional::horizontal_flip,
      [&](const at::Tensor& points) {
        return functional::horizontal_flip_keypoints(points, size_.width);
      });
}

void Targets::vertical_flip() {
  each(
      [&](const at::Tensor& boxes, BoxFormat format) {
        return functional::vertical_flip_boxes(boxes, format, size_.height);
      },
      functional::vertical_flip,
      [&](const at::Tensor& points) {
        return functional::vertical_flip_keypoints(points, size_.height);
      });
}

void Targets::pad(const functional::Padding& padding, image::Border border) {
  if (border != image::Border::kConstant) {
    for (const auto& [name, tensor] : sample_.tensors) {
      const auto target = target_of(name);
      if (target && target->kind != TargetKind::kMask)
        throw usage_error(
            {.refused = concat("border \"", image::to_string(border), "\" of a sample"),
             .rule = concat("with ", name, ", the border is constant")});
    }
  }
  const auto x = static_cast<double>(padding.left), y = static_cast<double>(padding.top);
  each([&](const at::Tensor& boxes,
           BoxFormat format) { return functional::move_boxes(boxes, format, x, y); },
       [&](const at::Tensor& mask) { return functional::pad(mask, padding, border); },
       [&](const at::Tensor& points) { return functional::move_keypoints(points, x, y); });
  size_.height += padding.top + padding.bottom;
  size_.width += padding.left + padding.right;
}

void Targets::crop(int64_t top, int64_t left, int64_t height, int64_t width) {
  const auto x = -static_cast<double>(left), y = -static_cast<double>(top);
  each([&](const at::Tensor& boxes,
           BoxFormat format) { return functional::move_boxes(boxes, format, x, y); },
       [&](const at::Tensor& mask) { return functional::crop(mask, top, left, height, width); },
       [&](const at::Tensor& points) { return functional::move_keypoints(points, x, y); });
  size_ = {height, width};
}

void Targets::center_crop(int64_t height, int64_t width) {
  crop(functional::center_begin(size_.height, height),
       functional::center_begin(size_.width, width),
       height,
       width);
}

void Targets::resize(int64_t height, int64_t width, Interpolation interpolation) {
  const functional::ResizeOptions nearest{
      .interpolation = interpolation == Interpolation::kNearestExact ? Interpolation::kNearestExact
                                                                     : Interpolation::kNearest};
  const image::Size to{height, width};
  each([&](const at::Tensor& boxes,
           BoxFormat format) { return functional::resize_boxes(boxes, format, size_, to); },
       [&](const at::Tensor& mask) { return functional::resize(mask, height, width, nearest); },
       [&](const at::Tensor& points) { return functional::resize_keypoints(points, size_, to); });
  size_ = to;
}

void Targets::affine(const functional::Affine& change) {
  map(functional::affine_map(size_, change), [&](const at::Tensor& mask) {
    constexpr double kBackground[] = {0};
    return functional::affine(mask, change, Interpolation::kNearest, kBackground);
  });
}

void Targets::rotate(const functional::Rotation& rotation, const image::Size& after) {
  map(functional::rotation_map(size_, rotation), [&](const at::Tensor& mask) {
    constexpr double kBackground[] = {0};
    return functional::rotate(mask, rotation, Interpolation::kNearest, kBackground);
  });
  size_ = after;
}

void Targets::perspective(const functional::PerspectiveCoefficients& coefficients) {
  map(functional::perspective_map(coefficients), [&](const at::Tensor& mask) {
    constexpr double kBackground[] = {0};
    return functional::perspective(mask, coefficients, Interpolation::kNearest, kBackground);
  });
}

void Targets::clamp_boxes() {
  for (auto& [name, tensor] : sample_.tensors) {
    const auto target = target_of(name);
    if (!target || target->kind != TargetKind::kBoxes) continue;
    check_boxes(name, tensor, target->format);
    tensor = functional::clamp_boxes(tensor, target->format, size_);
  }
}

void Targets::filter_boxes(const BoxFilter& filter) {
  at::Tensor stays;
  for (auto& [name, tensor] : sample_.tensors) {
    const auto target = target_of(name);
    if (!target || target->kind != TargetKind::kBoxes) continue;
    check_boxes(name, tensor, target->format);
    if (stays.defined()) refuse_target(name, "filter_boxes is for one tensor of boxes", tensor);
    stays = boxes_that_stay(tensor, target->format, size_, filter);
  }
  if (!stays.defined()) return;
  clamp_boxes();
  const at::Tensor kept = stays.nonzero().squeeze(1);
  for (auto& [name, tensor] : sample_.tensors) {
    const auto target = target_of(name);
    if ((target && target->kind == TargetKind::kBoxes) ||
        goes_with_boxes(name, tensor, filter, stays.size(0)))
      tensor = tensor.index_select(0, kept);
  }
}

}  // namespace muster::data
