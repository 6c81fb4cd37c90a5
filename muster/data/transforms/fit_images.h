// Images in the size and with the channels that a model needs.
#pragma once

#include <memory>

#include "muster/data/transform/transform.h"

namespace muster::data {

struct FitImagesOptions {
  int64_t channels = 0;  ///< 0: as they are; so for the others
  int64_t height = 0;
  int64_t width = 0;
};

/// Resizes as torchvision's v2 Resize, bilinear with antialiasing, in the dtype that the pixels have;
/// one channel is repeated to as many as asked for. Throws a usage error if the samples are no images
/// of float32, float64 or uint8, a size is below 0, or channels are to change that are not one.
std::shared_ptr<const Transform> make_fit_images(const FitImagesOptions& options,
                                                 const DataSpec& before);

/// The same samples as images of `channels` x `height` x `width`; spec() says so. The dataset
/// itself if they are that already. Nothing is resized before a batch is asked for, so the set
/// stays in memory in its own size. As transformed(), so 8-bit pixels are resized as bytes, then
/// normalised: the order of v2.Resize, ToDtype and Normalize. Sizes are at least 1.
std::shared_ptr<const Dataset> fit_images(std::shared_ptr<const Dataset> dataset,
                                          int64_t channels,
                                          int64_t height,
                                          int64_t width);

}  // namespace muster::data
