// What a chain of transforms does to samples, as a picture.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "muster/data/dataset.h"
#include "muster/data/transform/transform.h"
#include "muster/track/picture/contact_sheet.h"

namespace muster::train {

struct PreviewOptions {
  int64_t count = 4;  ///< samples, spread evenly over the dataset
  int64_t draws = 5;  ///< epochs of each
  uint64_t seed = 0;
  int64_t epoch = 0;  ///< the first of them
};

/// A row for each sample: as it is, and as the steps leave it in so many epochs, with its boxes, masks
/// and keypoints (Note [Typed targets]). The numbers of a sample are those that a loader with this seed
/// draws in the same epoch. Floats are shown with mean and deviation of the dataset's spec put back.
/// Throws as the makers and the dataset, a usage error for samples that are no images, or a count out
/// of range.
track::ContactSheet preview_sheet(const std::shared_ptr<const data::Dataset>& dataset,
                                  const std::vector<data::TransformMaker>& steps,
                                  const PreviewOptions& options);

}  // namespace muster::train
