#include "muster/train/loop/out_of_memory.h"

#include "muster/base/text.h"

namespace muster::train {

Error out_of_memory(const c10::OutOfMemoryError& error,
                    c10::Device device,
                    const std::string& when) {
  // "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8.00 GiB of which
  // 1.20 GiB is free. …": what follows is for readers of allocators.
  std::string text = error.what_without_backtrace();
  const size_t tried = text.find("Tried to allocate");
  const size_t free = text.find(" is free", tried == std::string::npos ? 0 : tried);
  if (tried != std::string::npos && free != std::string::npos)
    text = text.substr(tried, free + std::string(" is free").size() - tried);
  // Who only asks a run has no steps, and the precision is the run's.
  const bool only_asks = when == kInEvaluation || when == kInPrediction;
  return environment_error(
      {.refused = concat(device, " is out of memory ", when),
       .rule = text,
       .hint = only_asks
                   ? "take a smaller --batch-size, or another --device"
                   : "take a smaller --batch-size (with --accumulate-grad-batches for the same "
                     "steps), --precision bf16-mixed, or more devices"});
}

}  // namespace muster::train
