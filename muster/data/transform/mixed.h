// A dataset whose batches are mixed: MixUp and CutMix.
#pragma once

#include <memory>

#include "muster/data/dataset.h"
#include "muster/data/draws.h"
#include "muster/data/functional/mix.h"

namespace muster::data {

/// MixUp's share: Beta(alpha, alpha), as torchvision draws it.
double draw_mix_up(double alpha, Draws& draws);
/// CutMix's box in an image of `height` x `width`, as torchvision draws it.
functional::CutBox draw_cut_mix(double alpha, int64_t height, int64_t width, Draws& draws);

struct MixOptions {
  double mix_up_alpha = 0;   ///< 0: no MixUp
  double cut_mix_alpha = 0;  ///< 0: no CutMix; with both, each batch takes one of them
  double p = 1;              ///< how likely a batch is mixed, 0 … 1
  int64_t classes = 0;       ///< 0: those of spec()
};

/// The same batches with rows of "data" mixed, and "target" // [B, classes] float32, also where a
/// batch is not mixed: what at::cross_entropy_loss takes as probabilities. For training: behind
/// transforms, before the loader. Images are floats of one size. The numbers of a batch hang on seed,
/// epoch and its first sample's index, so on no worker; a batch of other samples has others. Throws a
/// usage error for options out of range, or samples without classes.
std::shared_ptr<const Dataset> mixed(std::shared_ptr<const Dataset> dataset,
                                     const MixOptions& options);

}  // namespace muster::data
