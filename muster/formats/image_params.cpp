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
  if (options.decode != "exact" && options.decode != "fast")
    refuse_data_param(owner, "decode", "exact or fast", '"' + options.decode + '"');
  if (options.decode == "fast" && options.size == 0)
    refuse_data_param(owner,
                      "decode",
                      "fast needs the size that images are fitted to, as in size=224: how small "
                      "they may be decoded hangs on it",
                      "size=0");
  check_test_fraction(owner, options.test_fraction);
}

}  // namespace muster::formats
