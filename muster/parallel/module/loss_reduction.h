// What a loss is of the rows that it is given.
#pragma once

namespace muster::parallel {

/// What a loss function does over the rows of its part of a batch.
enum class LossReduction { kMean, kSum };

}  // namespace muster::parallel
