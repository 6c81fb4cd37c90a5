#include "muster/data/transform/cut_step.h"

#include <utility>

#include "muster/data/transform/placed_step.h"

namespace muster::data {
namespace {

at::Tensor part_of(const at::Tensor& image, const Box& box) {
  return image.narrow(1, box.top, box.height).narrow(2, box.left, box.width);
}

/// What another step does, with the cut told.
class CutTransform final : public Transform {
 public:
  CutTransform(std::shared_ptr<const Transform> step, Cut cut)
      : step_(std::move(step)), cut_(std::move(cut)) {}

  const DataSpec& spec() const override { return step_->spec(); }
  void apply(Sample& sample, Rng& rng) const override { step_->apply(sample, rng); }
  void apply(Sample& sample, Draws& draws) const override { step_->apply(sample, draws); }
  bool apply(Batch& batch, const BatchRng& rng) const override { return step_->apply(batch, rng); }
  const Cut* cut() const override { return &cut_; }

 private:
  std::shared_ptr<const Transform> step_;
  Cut cut_;
};

}  // namespace

std::shared_ptr<const Transform> cut_step(
    DataSpec spec, Cut cut, std::function<void(Targets& targets, const Box& part)> move_targets) {
  auto step = placed_step(
      std::nullopt,
      std::move(spec),
      [draw = cut.draw](const at::Tensor& image, Draws& draws) {
        return draw(size_of(image), draws);
      },
      [epilogue = cut.epilogue](const at::Tensor& image, const Box& box) {
        return epilogue(part_of(image, box));
      },
      [move_targets = std::move(move_targets)](
          Targets& targets, const Box& box, const at::Tensor&) { move_targets(targets, box); });
  return std::make_shared<CutTransform>(std::move(step), std::move(cut));
}

}  // namespace muster::data
