// A run's folder without a training: checkpoints of one weight, and what a run records.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>

#include <torch/torch.h>

#include "muster/base/file.h"
#include "muster/train/checkpoints/checkpoint.h"

namespace muster::test {

inline train::Checkpoint saved_state(int64_t step, int64_t best_step) {
  train::Checkpoint checkpoint;
  checkpoint.position = {.step = step, .epoch = step / 10, .samples = 0};
  checkpoint.best_step = best_step;
  checkpoint.global_batch = 16;
  checkpoint.model = {{"w", torch::full({3}, static_cast<double>(step))}};
  return checkpoint;
}

/// A run of 40 steps whose best epoch ended at 20, and at 10 before that.
inline void make_run(const std::filesystem::path& folder) {
  for (const auto& [step, best] :
       std::map<int64_t, int64_t>{{10, 10}, {20, 20}, {30, 20}, {40, 20}})
    train::write_checkpoint(folder, saved_state(step, best));
  write_file_atomic(folder / "metrics.jsonl", "rows up to 40\n");
  write_file_atomic(folder / "lr_find.svg", "a plot\n");
  std::filesystem::create_directories(folder / "tensorboard");
  write_file_atomic(folder / "tensorboard" / "events", "points up to 40");
}

inline train::Checkpoint at(const std::filesystem::path& folder, int64_t step) {
  return train::read_checkpoint(train::checkpoint_folder(folder, step));
}

inline double weight(const train::Checkpoint& checkpoint) {
  return checkpoint.model.at(0).second[0].item<double>();
}

}  // namespace muster::test
