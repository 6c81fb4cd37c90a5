// Births and deaths of storages on the meta device: tensors without elements, whose sizes and lives are
// those of a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <ATen/core/Tensor.h>

#include "muster/memory/allocator/block.h"

namespace muster::memory {

// Note [Meta memory]
// Every storage of the meta device is asked of one allocator, which has nothing to give: it is asked for
// bytes, answers a null pointer, and is not told when the storage goes. The first MetaRecording puts
// another one in front, which answers a null pointer as well, with a number behind it that its deleter
// gets back. It is never taken away, as that of CPU memory (Note [CPU memory]); without a recording it
// asks the one behind. Autograd runs nodes of meta tensors in the thread that called backward, so a
// recording of one thread sees all of a step.

/// A storage.
struct MetaBlock {
  int64_t bytes = 0;            ///< as they were asked for
  Owner owner = Owner::kOther;  ///< as Note [Owners] says, until it is claimed
};

/// One of them begins or ends.
struct MetaEvent {
  uint32_t block = 0;
  bool is_birth = true;
};

/// What happened, in order.
struct MetaTrace {
  std::vector<MetaBlock> blocks;
  std::vector<MetaEvent> events;
};

/// While it lives, meta storages of this thread are recorded. One at a time in a thread: a second one
/// throws a usage error. Throws an environment error where an allocator of a higher priority stands
/// in front of ours. Storages may die in any thread, and after it.
class MetaRecording {
 public:
  MetaRecording();
  ~MetaRecording();
  MetaRecording(const MetaRecording&) = delete;
  MetaRecording& operator=(const MetaRecording&) = delete;

  /// The tensor's storage is the owner's, for all of its life. Nothing for one that is undefined, or
  /// was not made under this recording.
  void claim(const at::Tensor& tensor, Owner owner);
  MetaTrace trace() const;

  /// Private to this area.
  struct Log {
    mutable std::mutex mutex;
    MetaTrace trace;
  };

 private:
  std::shared_ptr<Log> log_;
};

}  // namespace muster::memory
