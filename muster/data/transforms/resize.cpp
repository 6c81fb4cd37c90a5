// torchvision's Resize: of tensors, or of PIL images.
#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/transform/placed_step.h"

namespace muster::data {
namespace {

struct ResizeParams {
  std::vector<int64_t> size;
  int64_t max_size = 0;
  std::string interpolation = "bilinear";
  bool antialias = true;
  std::string reference = "tensor";
};

constexpr Param kResizeParams[] = {
    param<&ResizeParams::size>("size", "of the shorter side; [height,width]; none: see max_size"),
    param<&ResizeParams::max_size>("max_size",
                                   "at most, of the longer side; without size, its size"),
    param<&ResizeParams::interpolation>("interpolation", "nearest, bilinear, bicubic, lanczos …"),
    param<&ResizeParams::antialias>("antialias", "smooths what shrinks"),
    param<&ResizeParams::reference>("reference", "whose bytes: tensor, or pillow (of PIL images)"),
};

class NewSize {
 public:
  NewSize(const ResizeParams& params, const ImageOptions& read) : max_size_(params.max_size) {
    if (params.max_size < 0 || params.max_size > 1 << 15)
      read.refuse("max_size", "it is in 0 … 32768", concat(params.max_size));
    if (params.size.empty() && params.max_size == 0)
      read.refuse("size", "it is given, or max_size", "none");
    if (!params.size.empty()) size_ = read.size("size", params.size);
    is_both_ = params.size.size() == 2;
    if (max_size_ == 0 || params.size.empty()) return;
    if (is_both_) read.refuse("max_size", "it goes with one size alone", concat(max_size_));
    if (max_size_ <= size_.height)
      read.refuse("max_size", concat("it is above the size, ", size_.height), concat(max_size_));
  }

  image::Size of(const image::Size& before) const {
    if (is_both_) return size_;
    return image::resized_size(before, size_.height, max_size_);
  }
  bool is_both() const { return is_both_; }

 private:
  image::Size size_;  // of 0: there is none
  int64_t max_size_ = 0;
  bool is_both_ = false;
};

std::shared_ptr<const Transform> make_resize(const ParamValues& values, const DataSpec& before) {
  const auto params = resolve_params<ResizeParams>(kResizeParams, values, "transform resize");
  const ImageOptions read("resize");
  const auto options = read.resize(params.interpolation, params.antialias, params.reference);
  const NewSize size(params, read);
  check_images("resize", before);
  const bool known = size.is_both() || (before.height() > 0 && before.width() > 0);
  const image::Size after = known ? size.of({before.height(), before.width()}) : image::Size{0, 0};
  return placed_step(
      std::nullopt,
      with_size(before, after.height, after.width),
      draw_nothing,
      [size, options](const at::Tensor& image, Nothing) {
        functional::check_image("resize", image);
        const image::Size to = size.of(size_of(image));
        return functional::resize(image, to.height, to.width, options);
      },
      [options](Targets& targets, Nothing, const at::Tensor& image) {
        targets.resize(image.size(1), image.size(2), options.interpolation);
      });
}

}  // namespace

extern constinit const TransformEntry resize_entry{
    .name = "resize",
    .help = "in another size: the shorter side's, or both",
    .params = kResizeParams,
    .make = &make_resize,
};

}  // namespace muster::data
