// What a sample has in places of its image: boxes, masks, keypoints.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/data/dataset.h"
#include "muster/data/functional/boxes.h"
#include "muster/data/functional/place.h"
#include "muster/data/functional/resize.h"

namespace muster::data {

// Note [Typed targets]
// A tensor's name says that it moves with the image, and how:
//   boxes, boxes_xyxy, boxes_xywh, boxes_cxcywh      [N, 4] float32 or float64
//   boxes_xywhr, boxes_cxcywhr, boxes_xyxyxyxy       [N, 5], [N, 5], [N, 8], rotated
//   mask, masks                                      [H, W], [N, H, W] uint8, bool, integers, floats
//   keypoints                                        [..., 2] float32 or float64
// A step that moves pixels moves them all by what it drew once: boxes and keypoints as torchvision's
// tv_tensors, masks by their nearest pixel, with 0 beyond the image. Boxes may leave the image, as
// torchvision's of clamping_mode=None: filter_boxes at the end of a chain still knows how much of each
// one is left. Steps that change colours leave them alone. Samples that have none cost the look at
// their names.

enum class TargetKind { kBoxes, kMask, kKeypoints };

struct TargetName {
  TargetKind kind;
  functional::BoxFormat format = functional::BoxFormat::kXyxy;
};
/// What a tensor of that name is; nothing for one that does not move.
std::optional<TargetName> target_of(std::string_view name);

bool has_targets(const tensor::NamedTensorList& tensors);

/// Which boxes stay.
struct BoxFilter {
  double min_size = 1;        ///< pixels, of both sides
  double min_area = 1;        ///< pixels, inside the image
  double min_visibility = 0;  ///< the area inside the image of the whole one, 0 … 1
  /// Tensors with a row for each box, which go with it. Those that a sample has not are passed over.
  std::vector<std::string> rows{"labels"};
};

/// The targets of one sample, while its image changes. Each call puts new tensors in the places of the
/// old ones. Throws a usage error, which names the tensor, for shapes and dtypes other than those
/// above.
class Targets {
 public:
  /// `size`: the image's before the first call.
  Targets(Sample& sample, image::Size size);

  const image::Size& size() const { return size_; }

  void horizontal_flip();
  void vertical_flip();
  /// Throws a usage error for boxes and keypoints with a border other than kConstant.
  void pad(const functional::Padding& padding, image::Border border);
  void crop(int64_t top, int64_t left, int64_t height, int64_t width);
  void center_crop(int64_t height, int64_t width);
  void resize(int64_t height, int64_t width, functional::Interpolation interpolation);
  void affine(const functional::Affine& change);
  /// `after`: the turned image's.
  void rotate(const functional::Rotation& rotation, const image::Size& after);
  void perspective(const functional::PerspectiveCoefficients& coefficients);

  /// Upright boxes are cut off where the image ends.
  void clamp_boxes();
  /// The same, and boxes of which too little is left inside go, with their rows of filter.rows, of masks
  /// [N, H, W] and of keypoints [N, K, 2]. Rotated boxes are measured by the part of them that lies in
  /// the image, their sides whole. Numbers have a slack of 1e-7, as albumentations'. Throws a usage
  /// error for two tensors of boxes, or rows that are not as many.
  void filter_boxes(const BoxFilter& filter);

 private:
  template <class Boxes, class Mask, class Points>
  void each(Boxes boxes, Mask mask, Points points);
  template <class Mask>
  void map(const functional::PointMap& to, Mask mask);

  Sample& sample_;
  image::Size size_;
};

}  // namespace muster::data
