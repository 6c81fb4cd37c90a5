// Notes who holds memory at the moment in which an allocation fails.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "muster/diagnose/surroundings/surroundings.h"
#include "muster/memory/allocator/cpu_memory.h"
#include "muster/memory/allocator/refusal.h"

namespace muster::memory {

// Note [The moment of failure]
// An error that is caught has unwound the stack: activations and temporaries, mostly what filled
// the memory, are gone by then. So allocators that can tell say so right before they throw
// (refusal.h): the CPU's under a Recording, and those of fake devices. While an OomWatch lives, the
// last of these failures are kept with all their blocks, 48 bytes each, and explain() finds its own
// among them by the error's words. Other processes are asked for in explain(): they do not go away
// with our stack, and a driver may take seconds to answer.
//
// LibTorch's allocators of CUDA and others say their numbers in the error's text, which is of the
// moment as well; who holds the blocks they do not say.

/// While one lives, failures are noted; without, nothing is. Any thread, any number of them.
class OomWatch {
 public:
  /// `surroundings`: where the machine's memory is read, at a failure on the CPU.
  explicit OomWatch(diagnose::Surroundings surroundings = {});
  ~OomWatch();
  OomWatch(const OomWatch&) = delete;
  OomWatch& operator=(const OomWatch&) = delete;
};

struct HostBytes;

/// A failure as it was noted. Private to the room, as what follows.
struct NotedRefusal {
  Refusal refusal;  ///< without `words` and `each_block`
  std::string words;
  std::vector<HeldBlock> blocks;
  Level level = Level::kOff;              ///< of the recordings then
  std::shared_ptr<const HostBytes> host;  ///< of the CPU's
};

/// The last one of this device whose first line is part of `words`, taken away. Nothing: none was
/// noted.
std::optional<NotedRefusal> take_noted(c10::Device device, const std::string& words);

}  // namespace muster::memory
