// torchvision's CenterCrop of an image that is large enough.
#include <algorithm>
#include <cmath>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/transform/transform.h"

namespace muster::data {
namespace {

struct CenterCropOptions {
  int64_t size = 0;
};

constexpr Param kCenterCropParams[] = {
    param<&CenterCropOptions::size>("size", "height and width of the cut-out"),
};

/// As torchvision's int(round((h - size) / 2.0)): halves go to the even number.
int64_t middle(int64_t whole, int64_t size) {
  return std::lrint(static_cast<double>(whole - size) / 2);
}

class CenterCrop final : public Transform {
 public:
  CenterCrop(const DataSpec& before, int64_t size)
      : spec_(before),
        size_(size),
        top_(middle(before.height(), size)),
        left_(middle(before.width(), size)) {
    spec_.sample_shape = {before.channels(), size, size};
  }

  const DataSpec& spec() const override { return spec_; }
  void apply(Sample& sample, Rng&) const override { sample["data"] = middle_of(sample["data"]); }
  bool apply(Batch& batch, const BatchRng&) const override {
    batch["data"] = middle_of(batch["data"]);
    return true;
  }

 private:
  /// Of an image or of several // [..., H, W]
  at::Tensor middle_of(const at::Tensor& images) const {
    return images.narrow(-2, top_, size_).narrow(-1, left_, size_).contiguous();
  }

  DataSpec spec_;
  int64_t size_, top_, left_;
};

std::shared_ptr<const Transform> make_center_crop(const ParamValues& params,
                                                  const DataSpec& before) {
  const auto options =
      resolve_params<CenterCropOptions>(kCenterCropParams, params, "transform center_crop");
  check_images("center_crop", before);
  check_one_size("center_crop", before);
  const int64_t most = std::min(before.height(), before.width());
  if (options.size < 1 || options.size > most) {
    throw usage_error({.refused = "transform center_crop parameter \"size\"",
                       .rule = concat("at least 1, at most the image's ", most),
                       .value = std::to_string(options.size)});
  }
  return std::make_shared<CenterCrop>(before, options.size);
}

}  // namespace

extern constinit const TransformEntry center_crop_entry{
    .name = "center_crop",
    .help = "a cut-out of the middle",
    .params = kCenterCropParams,
    .make = &make_center_crop,
};

}  // namespace muster::data
