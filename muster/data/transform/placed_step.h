// Steps that move pixels, and with them what a sample has in places of its image.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "muster/data/transform/image_step.h"
#include "muster/data/transform/targets.h"

namespace muster::data {

inline image::Size size_of(const at::Tensor& image) { return {image.size(1), image.size(2)}; }

/// A step that draws once, `draw(image, draws)`, and moves all by it: `move_image(image, drawn)` gives
/// the new image, `move_targets(targets, drawn, image)` sees it, and is called for samples that have
/// targets alone (Note [Typed targets]). With `p`, one number is drawn before, as image_step_with does.
template <class Draw, class MoveImage, class MoveTargets>
std::shared_ptr<const Transform> placed_step(std::optional<double> p,
                                             DataSpec spec,
                                             Draw draw,
                                             MoveImage move_image,
                                             MoveTargets move_targets) {
  const auto change = [=](const at::Tensor& image, Draws& draws) -> at::Tensor {
    if (p && !draws.is_below(*p)) return image;
    return move_image(image, draw(image, draws));
  };
  const auto change_all = [=](Sample& sample, Draws& draws) {
    if (p && !draws.is_below(*p)) return;
    at::Tensor& image = sample["data"];
    const auto drawn = draw(image, draws);
    Targets targets(sample, size_of(image));
    const at::Tensor moved = move_image(image, drawn);
    move_targets(targets, drawn, moved);
    sample["data"] = moved;
  };
  return image_step_with_targets(std::move(spec), change, change_all);
}

/// For steps that draw nothing but whether they are done.
struct Nothing {};
inline Nothing draw_nothing(const at::Tensor& /*image*/, Draws& /*draws*/) { return {}; }

}  // namespace muster::data
