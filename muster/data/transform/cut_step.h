// Steps that see a part of an image only, so that no more of it need be decoded.
#pragma once

#include <functional>
#include <memory>

#include "muster/data/transform/draw_params.h"
#include "muster/data/transform/image_step.h"
#include "muster/data/transform/targets.h"

namespace muster::data {

/// How such a step goes about it. `epilogue(draw's part of the image)` is what the step makes of
/// the image, whatever lies around that part.
struct Cut {
  std::function<Box(const image::Size& whole, Draws& draws)> draw;
  /// part // [C, height, width], which may be seen through other strides than its own.
  std::function<at::Tensor(const at::Tensor& part)> epilogue;
};

/// A step that does so. `move_targets(targets, part)` moves what a sample has in places of its image.
std::shared_ptr<const Transform> cut_step(
    DataSpec spec, Cut cut, std::function<void(Targets& targets, const Box& part)> move_targets);

}  // namespace muster::data
