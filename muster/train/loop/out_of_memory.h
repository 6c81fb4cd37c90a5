// The error of a device whose memory is full.
#pragma once

#include <string>

#include <c10/core/Device.h>
#include <c10/util/Exception.h>

#include "muster/base/error.h"

namespace muster::train {

/// When: of work that has no optimizer step.
inline constexpr const char* kInEvaluation = "in an evaluation";
inline constexpr const char* kInPrediction = "in a prediction";

/// In words of ours, with the bytes that LibTorch names. `when`: "at the start", "in step 3".
Error out_of_memory(const c10::OutOfMemoryError& error,
                    c10::Device device,
                    const std::string& when);

/// work(), whose out-of-memory is told so.
template <class Work>
auto with_memory_words(c10::Device device, const char* when, const Work& work) {
  try {
    return work();
  } catch (const c10::OutOfMemoryError& error) {
    throw out_of_memory(error, device, when);
  }
}

}  // namespace muster::train
