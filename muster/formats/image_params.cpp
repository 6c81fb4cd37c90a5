#include "muster/formats/image_params.h"

#include "muster/formats/data_params.h"

namespace muster::formats {

void check_image_params(std::string_view owner, const ImageDataOptions& options) {
  if (options.bad_files != "raise" && options.bad_files != "skip" &&
      options.bad_files != "substitute")
    refuse_data_param(
        owner, "bad_files", "raise, skip or substitute", '"' + options.bad_files + '"');
  if (options.normalize != "imagenet" && options.normalize != "none")
    refuse_data_param(owner, "normalize", "imagenet or none", '"' + options.normalize + '"');
  check_test_fraction(owner, options.test_fraction);
}

}  // namespace muster::formats
