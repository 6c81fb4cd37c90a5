// torchvision's ToDtype.
#include "muster/data/functional/color.h"
#include "muster/data/transform/image_step.h"

namespace muster::data {
namespace {

struct ToDtypeOptions {
  std::string dtype = "float32";
  bool scale = true;
};

constexpr Param kToDtypeParams[] = {
    param<&ToDtypeOptions::dtype>("dtype", "float32, float64 or uint8"),
    param<&ToDtypeOptions::scale>("scale", "255 of bytes is 1 of floats"),
};

std::shared_ptr<const Transform> make_to_dtype(const ParamValues& values, const DataSpec& before) {
  const auto options = resolve_params<ToDtypeOptions>(kToDtypeParams, values, "transform to_dtype");
  check_images("to_dtype", before);
  DataSpec spec = before;
  if (options.dtype == "float32") {
    spec.dtype = at::kFloat;
  } else if (options.dtype == "float64") {
    spec.dtype = at::kDouble;
  } else if (options.dtype == "uint8") {
    spec.dtype = at::kByte;
  } else {
    ImageOptions("to_dtype")
        .refuse("dtype", "float32, float64 or uint8", '"' + options.dtype + '"');
  }
  if (spec.dtype != before.dtype) {  // nothing has been taken off these floats
    spec.mean.clear();
    spec.standard_deviation.clear();
  }
  return image_step(spec,
                    [dtype = spec.dtype, scale = options.scale](const at::Tensor& image, Draws&) {
                      return functional::to_dtype(image, dtype, scale);
                    });
}

}  // namespace

extern constinit const TransformEntry to_dtype_entry{
    .name = "to_dtype",
    .help = "bytes to floats 0 … 1, or back",
    .params = kToDtypeParams,
    .make = &make_to_dtype,
};

}  // namespace muster::data
