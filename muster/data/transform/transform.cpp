#include "muster/data/transform/transform.h"

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tensor/dtype_name.h"

namespace muster::data {

void Transform::apply(Sample& /*sample*/, Draws& /*draws*/) const {
  throw usage_error({.refused = concat("a step of ", spec().name, " with numbers of a generator"),
                     .rule = "it draws from muster::data::Rng alone"});
}

void check_images(std::string_view transform, const DataSpec& spec) {
  const std::string refused = concat(transform, " of ", spec.name);
  if (!spec.is_image()) {
    throw usage_error(
        {.refused = refused,
         .rule = "a sample is an image [channels, height, width]",
         .value = concat(to_string(spec.what()), " of ", spec.sample_shape.size(), " dimensions")});
  }
  if (spec.dtype == at::kFloat || spec.dtype == at::kDouble || spec.dtype == at::kByte) return;
  throw usage_error({.refused = refused,
                     .rule = "pixels are float32, float64 or uint8",
                     .value = tensor::dtype_name(spec.dtype)});
}

void check_one_size(std::string_view transform, const DataSpec& spec) {
  if (spec.has_size()) return;
  throw usage_error({.refused = concat(transform, " of ", spec.name),
                     .rule = "its images are of one size, and these are not",
                     .hint = "begin the chain with a step that makes one size of all, such as "
                             "random_resized_crop:size=224 or center_crop:size=224"});
}

}  // namespace muster::data
