#include "muster/data/transform/image_step.h"

#include <algorithm>
#include <utility>

#include <ATen/ops/stack.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/transform/targets.h"

namespace muster::data {
namespace {

using SampleChange = std::function<void(Sample&, Draws&)>;

class ImageStep final : public Transform {
 public:
  /// `change_all`: null where targets stay as they are.
  ImageStep(DataSpec spec, ImageChange change, SampleChange change_all)
      : spec_(std::move(spec)), change_(std::move(change)), change_all_(std::move(change_all)) {}

  const DataSpec& spec() const override { return spec_; }
  void apply(Sample& sample, Rng& rng) const override {
    RngDraws draws(rng);
    apply(sample, draws);
  }
  void apply(Sample& sample, Draws& draws) const override {
    if (change_all_ && has_targets(sample.tensors)) return change_all_(sample, draws);
    at::Tensor& image = sample["data"];
    image = change_(image, draws);
  }
  bool apply(Batch& batch, const BatchRng& rng) const override {
    if (spec_.height() == 0 || spec_.width() == 0 || batch.size() == 0) return false;
    if (change_all_ && has_targets(batch.tensors)) return false;
    at::Tensor& images = batch["data"];
    std::vector<at::Tensor> changed;
    for (int64_t row = 0; row < batch.size(); ++row) {
      Rng own = rng[row];
      RngDraws draws(own);
      changed.push_back(change_(images.select(0, row), draws));
    }
    images = at::stack(changed);
    return true;
  }

 private:
  DataSpec spec_;
  ImageChange change_;
  SampleChange change_all_;
};

std::string shown_list(const std::vector<double>& values) {
  std::vector<std::string> parts;
  for (const double value : values) parts.push_back(shortest(value));
  return concat('[', join(parts, ","), ']');
}
std::string shown_list(const std::vector<int64_t>& values) {
  return shown_list(std::vector<double>(values.begin(), values.end()));
}

constexpr int64_t kLongestSide = 1 << 15;

}  // namespace

std::shared_ptr<const Transform> image_step(DataSpec spec, ImageChange change) {
  return std::make_shared<ImageStep>(std::move(spec), std::move(change), nullptr);
}

std::shared_ptr<const Transform> image_step_with_targets(DataSpec spec,
                                                         ImageChange change,
                                                         SampleChange change_all) {
  return std::make_shared<ImageStep>(std::move(spec), std::move(change), std::move(change_all));
}

std::shared_ptr<const Transform> image_step_without_targets(std::string_view transform,
                                                            DataSpec spec,
                                                            ImageChange change) {
  const auto refuse_targets = [transform = std::string(transform)](Sample&, Draws&) {
    throw usage_error({.refused = concat(transform, " of a sample with boxes, masks or keypoints"),
                       .rule = "it may move pixels, and does not say where",
                       .hint = "one_of and some_of of single steps move them all"});
  };
  return image_step_with_targets(std::move(spec), std::move(change), refuse_targets);
}

std::shared_ptr<const Transform> image_step_with(double p, DataSpec spec, ImageChange change) {
  return image_step(std::move(spec),
                    [p, change = std::move(change)](const at::Tensor& image, Draws& draws) {
                      return draws.is_below(p) ? change(image, draws) : image;
                    });
}

DataSpec with_size(DataSpec before, int64_t height, int64_t width) {
  before.sample_shape = {before.channels(), height, width};
  return before;
}

void ImageOptions::refuse(std::string_view name, std::string rule, std::string value) const {
  throw usage_error({.refused = concat("transform ", transform_, " parameter \"", name, '"'),
                     .rule = std::move(rule),
                     .value = std::move(value)});
}

image::Size ImageOptions::size(std::string_view name, const std::vector<int64_t>& values) const {
  const bool in_range = std::all_of(
      values.begin(), values.end(), [](int64_t side) { return side >= 1 && side <= kLongestSide; });
  if (values.empty() || values.size() > 2 || !in_range)
    refuse(name,
           concat("a number, or [height,width], each in 1 … ", kLongestSide),
           values.size() == 1 ? concat(values[0]) : shown_list(values));
  return {values.front(), values.back()};
}

functional::Padding ImageOptions::padding(const std::vector<int64_t>& values) const {
  for (const int64_t side : values) {
    if (side < 0 || side > kLongestSide)
      refuse("padding", concat("each is in 0 … ", kLongestSide), std::to_string(side));
  }
  switch (values.size()) {
    case 0:
      return {};
    case 1:
      return {values[0], values[0], values[0], values[0]};
    case 2:
      return {values[0], values[1], values[0], values[1]};
    case 4:
      return {values[0], values[1], values[2], values[3]};
    default:
      break;
  }
  refuse("padding",
         "a number, [left and right,top and bottom] or [left,top,right,bottom]",
         shown_list(values));
}

void ImageOptions::check_fill(const std::vector<double>& values,
                              const DataSpec& before,
                              std::string_view name) const {
  if (values.size() > 1 && static_cast<int64_t>(values.size()) != before.channels())
    refuse(name,
           concat("a number, or one for each of ", before.channels(), " channels"),
           shown_list(values));
  for (const double value : values) {
    if (before.dtype == at::kByte && !(value >= 0 && value <= 255))
      refuse(name, "a byte, 0 … 255", shortest(value));
  }
}

std::array<double, 2> ImageOptions::around_zero(std::string_view name,
                                                const std::vector<double>& values) const {
  if (values.size() == 1 && values[0] >= 0) return {-values[0], values[0]};
  if (values.size() != 2 || values[0] > values[1])
    refuse(name,
           "a number that is at least 0, or [least,most]",
           values.size() == 1 ? shortest(values[0]) : shown_list(values));
  return {values[0], values[1]};
}

std::optional<functional::Point> ImageOptions::center(const std::vector<double>& values) const {
  if (values.empty()) return std::nullopt;
  if (values.size() != 2) refuse("center", "[x,y], or none", shown_list(values));
  return functional::Point{values[0], values[1]};
}

void ImageOptions::check_range(std::string_view name,
                               const std::vector<double>& values,
                               double least,
                               double most) const {
  const bool ordered = values.size() == 2 && values[0] <= values[1];
  if (!ordered || values[0] < least || values[1] > most)
    refuse(name,
           concat("[least,most], in ", shortest(least), " … ", shortest(most)),
           shown_list(values));
}

void ImageOptions::check_in(std::string_view name, double value, double least, double most) const {
  if (!(value >= least && value <= most))
    refuse(name, concat("it is in ", shortest(least), " … ", shortest(most)), shortest(value));
}

void ImageOptions::check_colors(const DataSpec& before) const {
  if (before.channels() == 1 || before.channels() == 3) return;
  throw usage_error({.refused = concat(transform_, " of ", before.name),
                     .rule = "images have 1 or 3 channels",
                     .value = concat(before.channels())});
}

functional::Interpolation ImageOptions::interpolation(const std::string& name) const {
  if (const auto known = functional::interpolation_of(name)) return *known;
  refuse("interpolation",
         "nearest, nearest-exact, bilinear, bicubic, lanczos, box or hamming",
         '"' + name + '"');
}

functional::Interpolation ImageOptions::sampling(const std::string& name) const {
  if (name != "nearest" && name != "bilinear")
    refuse("interpolation", "nearest or bilinear", '"' + name + '"');
  return interpolation(name);
}

functional::ResizeOptions ImageOptions::resize(const std::string& interpolation_name,
                                               bool antialias,
                                               const std::string& reference) const {
  if (reference != "tensor" && reference != "pillow")
    refuse("reference", "tensor or pillow", '"' + reference + '"');
  const functional::ResizeOptions options{
      .interpolation = interpolation(interpolation_name),
      .antialias = antialias,
      .reference = reference == "pillow" ? image::Reference::kPillow : image::Reference::kTensor};
  functional::check_resize(concat("transform ", transform_), options);
  return options;
}

image::Border ImageOptions::border(const std::string& name) const {
  for (const image::Border border : {image::Border::kConstant,
                                     image::Border::kEdge,
                                     image::Border::kReflect,
                                     image::Border::kSymmetric}) {
    if (image::to_string(border) == name) return border;
  }
  refuse("padding_mode", "constant, edge, reflect or symmetric", '"' + name + '"');
}

}  // namespace muster::data
