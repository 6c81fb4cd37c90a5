// Steps whose device has ended with an assertion, made again on the CPU, which can say what was wrong.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>

#include "muster/distributed/process_group.h"
#include "muster/formats/checkpoint_index.h"
#include "muster/tensor/index_watch.h"
#include "muster/train/loop/fit.h"

namespace muster::train {

// Note [Replayed steps]
// A kernel of CUDA that meets an index outside of its tensor ends with an assertion: the device answers
// every later call with the same words, nothing on it can be read any more, and whoever hears it
// first was not the cause. What an index may be hangs on shapes, not on weights. So the task is made
// anew on the CPU with the weights that its maker gives it, and the training batches that were under way
// (the step in hand, and those that the host had not heard of) are read again: the loader gives the
// same samples with the same draws at the same position. Their train_step() runs under a
// tensor::IndexWatch, forward only. Nothing is collective, and what goes wrong in it is not told: the
// device's own words remain. Evaluations are not replayed, nor indices that weights lead to (the
// argmax of a network): with other weights they are others.

/// Where the oldest step is whose end the host has not heard of.
struct StepsUnderWay {
  formats::TrainPosition first;
  int64_t steps = 0;  ///< 0: none, nothing is replayed
};

struct ReplayedIndex {
  tensor::BadIndex found;
  int64_t step = 0;  ///< of the run, from 1
};

/// Whether the error, or one nested in it, is an assertion of a device's kernel.
bool is_device_assertion(const std::exception_ptr& error);

/// The first index that is outside in those steps, on this rank's share of their batches; nothing if
/// there is none, or if they cannot be made. Takes what a forward of the model takes on the host.
std::optional<ReplayedIndex> replay_on_cpu(const FitRequest& run,
                                           const distributed::ProcessGroup& group,
                                           const StepsUnderWay& under_way) noexcept;

/// The error in hand: if it is an assertion of a device and the replay has found an index, nested in a
/// usage error that names operator, place, value and step; else as it is. Inside a handler only.
[[noreturn]] void rethrow_with_index(const FitRequest& run,
                                     const distributed::ProcessGroup& group,
                                     const StepsUnderWay& under_way);

}  // namespace muster::train
