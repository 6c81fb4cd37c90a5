#include "muster/data/functional/mix.h"

#include <ATen/ops/zeros.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tensor/dtype_name.h"

namespace muster::data::functional {
namespace {

[[noreturn]] void refuse_mix(std::string rule, std::string value) {
  throw usage_error(
      {.refused = "mix of a batch", .rule = std::move(rule), .value = std::move(value)});
}

void check_rows(const at::Tensor& images, const at::Tensor& targets) {
  if (targets.dim() != 2 || !targets.is_floating_point())
    refuse_mix("targets are floats [B, classes]: soft_targets() makes them",
               concat(targets.sizes(), " of ", tensor::dtype_name(targets.scalar_type())));
  if (images.dim() < 2 || images.size(0) != targets.size(0))
    refuse_mix("there is an image for each target",
               concat(images.sizes(), " and ", targets.sizes()));
}

at::Tensor mixed(const at::Tensor& rows, double share) {
  return rows.roll(1, 0).mul_(1.0 - share).add_(rows.mul(share));
}

}  // namespace

at::Tensor soft_targets(const at::Tensor& targets, int64_t classes) {
  if (targets.dim() == 2 && targets.is_floating_point() && targets.size(1) == classes)
    return targets;
  if (targets.dim() != 1 || targets.scalar_type() != at::kLong || classes < 1)
    refuse_mix(concat("targets are [B] int64, or floats [B, ", classes, "]"),
               concat(targets.sizes(), " of ", tensor::dtype_name(targets.scalar_type())));
  if (targets.numel() > 0 &&
      (targets.min().item<int64_t>() < 0 || targets.max().item<int64_t>() >= classes))
    refuse_mix(concat("targets are in 0 … ", classes - 1), concat(targets.max().item<int64_t>()));
  return at::zeros({targets.size(0), classes}, at::kFloat).scatter_(1, targets.unsqueeze(1), 1.0);
}

MixedBatch mix_up(const at::Tensor& images, const at::Tensor& targets, double share) {
  check_rows(images, targets);
  if (!images.is_floating_point())
    refuse_mix("images are floats", tensor::dtype_name(images.scalar_type()));
  if (!(share >= 0 && share <= 1)) refuse_mix("a share is in 0 … 1", shortest(share));
  return {mixed(images, share), mixed(targets, share)};
}

MixedBatch cut_mix(const at::Tensor& images, const at::Tensor& targets, const CutBox& box) {
  check_rows(images, targets);
  const bool fits = images.dim() == 4 && box.left >= 0 && box.top >= 0 && box.left <= box.right &&
                    box.top <= box.bottom && box.right <= images.size(3) &&
                    box.bottom <= images.size(2);
  if (!fits)
    refuse_mix(concat("the box lies in images [B, C, H, W], here ", images.sizes()),
               concat(box.left, ",", box.top, " to ", box.right, ",", box.bottom));
  const int64_t width = box.right - box.left, height = box.bottom - box.top;
  const double share = 1.0 - static_cast<double>(width * height) /
                                 static_cast<double>(images.size(3) * images.size(2));
  at::Tensor cut = images.clone();
  const auto in_box = [&](const at::Tensor& all) {
    return all.narrow(2, box.top, height).narrow(3, box.left, width);
  };
  in_box(cut).copy_(in_box(images.roll(1, 0)));
  return {cut, mixed(targets, share)};
}

}  // namespace muster::data::functional
