// Boxes of an image, moved as its pixels are: torchvision's BoundingBoxes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "muster/data/functional/points.h"

namespace muster::data::functional {

/// What a row of boxes holds; x and y are in pixels from the upper left corner of the image, r is
/// degrees, anticlockwise.
enum class BoxFormat {
  kXyxy,     ///< two corners
  kXywh,     ///< upper left corner, width and height
  kCxcywh,   ///< middle, width and height
  kXywhr,    ///< first corner, width, height, and the turn around that corner
  kCxcywhr,  ///< middle, width, height and turn
  kXyxyxyxy  ///< four corners: the first one, those at its right, across, and below
};

/// "xyxy", "xywh", "cxcywh", "xywhr", "cxcywhr", "xyxyxyxy".
std::string_view to_string(BoxFormat format);
std::optional<BoxFormat> box_format_of(std::string_view name);

/// Numbers of a row: 4, 5 or 8.
int64_t numbers_of(BoxFormat format);
bool is_rotated(BoxFormat format);

// Boxes are [N, 4, 5 or 8] of float32 or float64; results are new tensors of the dtype. They may reach
// beyond the image: torchvision's clamping_mode=None. Sizes are the image's before the change.

/// Throws a usage error from rotated to upright boxes, or the other way.
at::Tensor convert_boxes(const at::Tensor& boxes, BoxFormat from, BoxFormat to);

at::Tensor horizontal_flip_boxes(const at::Tensor& boxes, BoxFormat format, int64_t width);
at::Tensor vertical_flip_boxes(const at::Tensor& boxes, BoxFormat format, int64_t height);
at::Tensor move_boxes(const at::Tensor& boxes, BoxFormat format, double x, double y);
/// Rotated ones become the rectangle around the longer diagonal of what they are then.
at::Tensor resize_boxes(const at::Tensor& boxes,
                        BoxFormat format,
                        const image::Size& from,
                        const image::Size& to);
/// Upright boxes become the least ones that hold their four corners.
at::Tensor map_boxes(const at::Tensor& boxes, BoxFormat format, const PointMap& map);

/// The part inside the image. Rotated boxes stay as they are.
at::Tensor clamp_boxes(const at::Tensor& boxes, BoxFormat format, const image::Size& size);

/// The area of each box, and of its part inside the image // [N] of the dtype.
struct BoxAreas {
  at::Tensor whole;
  at::Tensor inside;
};
BoxAreas areas_of(const at::Tensor& boxes, BoxFormat format, const image::Size& size);

/// Its width and height // [N, 2]
at::Tensor sides_of(const at::Tensor& boxes, BoxFormat format);

}  // namespace muster::data::functional
