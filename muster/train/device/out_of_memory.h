// The error of a device whose memory is full.
#pragma once

#include <string>
#include <string_view>

#include <c10/core/Device.h>
#include <c10/util/Exception.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::train {

/// The error in hand: if it is LibTorch's out-of-memory, or one of ours around it, thrown in words of
/// ours, with the bytes that LibTorch names and what the one around says of where; else as it is.
/// `when`: "at the start", "in step 3". Inside a handler only.
[[noreturn]] void rethrow_in_memory_words(c10::Device device,
                                          std::string_view when,
                                          std::string_view hint);

/// work(), whose out-of-memory is told so.
template <class Work>
auto with_memory_words(c10::Device device,
                       std::string_view when,
                       std::string_view hint,
                       const Work& work) {
  try {
    return work();
  } catch (...) {
    rethrow_in_memory_words(device, when, hint);
  }
}

}  // namespace muster::train
