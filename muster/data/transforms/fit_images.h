// Images in the size and with the channels that a model needs.
#pragma once

#include <memory>

#include "muster/data/dataset.h"

namespace muster::data {

/// The same samples as images of `channels` x `height` x `width`; spec() says so. The dataset
/// itself if they are that already. Nothing is resized before a batch is asked for, so the set
/// stays in memory in its own size.
///
/// Resizing is torchvision's v2 Resize, bilinear with antialiasing: the 8-bit pixels of an
/// ImageDataset are resized as bytes, then normalised, which is the order of v2.Resize, ToDtype
/// and Normalize; other images are resized in the dtype that they have. One channel is repeated to
/// as many as asked for. A SubsetDataset stays one.
///
/// Throws a usage error if the samples are no images [C, H, W] of float32, float64 or uint8, a size
/// is below 1, or channels are to change that are not one.
std::shared_ptr<const Dataset> fit_images(std::shared_ptr<const Dataset> dataset,
                                          int64_t channels,
                                          int64_t height,
                                          int64_t width);

}  // namespace muster::data
