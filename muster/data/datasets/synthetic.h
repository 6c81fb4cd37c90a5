// A made-up image task that a small model learns in seconds; no files.
#pragma once

#include <cstdint>
#include <memory>

#include "muster/data/sets/image_dataset.h"

namespace muster::data {

struct SyntheticOptions {
  int64_t samples = 2048;      ///< of the training split
  int64_t test_samples = 512;  ///< of the test split
  int64_t classes = 10;
  int64_t channels = 1;
  int64_t size = 28;   ///< height and width
  double noise = 0.5;  ///< share of a pixel that is random: 0 … 1
  int64_t seed = 0;
};

/// Each class has a pattern of 4 x 4 random patches; a sample is its class's pattern blended with
/// noise of its own. Sample i is of class i modulo `classes`. Both splits share the patterns. The
/// same options give the same bytes everywhere. Throws a usage error for sizes or numbers below 1,
/// more than 256 classes, noise outside 0 … 1, or a split that the free memory has no room for.
std::shared_ptr<const ImageDataset> make_synthetic(const SyntheticOptions& options, Split split);

}  // namespace muster::data
