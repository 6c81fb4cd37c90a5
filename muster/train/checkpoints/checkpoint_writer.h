// Checkpoints written while the training goes on.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>
#include <vector>

#include "muster/train/checkpoints/checkpoint.h"

namespace muster::train {

/// One thread that writes what it is given, one checkpoint after the other; owned and used by the
/// thread that trains. The caller waits only while its tensors are copied (memory bandwidth) and,
/// if the one before is not written yet, for that.
class CheckpointWriter {
 public:
  /// `keep`: how many of the newest stay; see remove_old_checkpoints.
  CheckpointWriter(std::filesystem::path output, int64_t keep);
  /// Waits for the checkpoint in hand. An error of it is lost: call wait().
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Copies the tensors of `checkpoint`, but for those that nobody else holds, then writes it in
  /// the background. Throws what the checkpoint before it failed with.
  void start(Checkpoint checkpoint);

  /// Waits until nothing is left to write. Returns the newest folder, empty if there was none.
  /// Throws what the last checkpoint failed with.
  std::filesystem::path wait();

 private:
  void work();
  void wait_idle(std::unique_lock<std::mutex>& lock);

  std::filesystem::path output_;
  int64_t keep_;
  Checkpoint copy_;                 // its memory is used again by the next one
  std::vector<at::Tensor*> taken_;  // those in copy_ that were not copied: dropped when written

  std::mutex mutex_;
  std::condition_variable changed_;
  bool due_ = false;  // copy_ waits to be written
  bool busy_ = false;
  bool closing_ = false;
  std::exception_ptr error_;
  std::filesystem::path newest_;
  std::thread thread_;  // last: it uses the members above
};

}  // namespace muster::train
