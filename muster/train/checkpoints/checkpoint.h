// Checkpoints: all that a run needs to go on exactly, written so that a crash at any byte leaves
// the one before it whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/json.h"
#include "muster/formats/checkpoint_index.h"
#include "muster/tensor/safetensors.h"

namespace muster::train {

// Note [Exact resume]
// The contract is docs/decisions/0006-exact-resume.md. In short: position counts samples consumed
// by finished optimizer steps over all ranks; model, optimizer, every rank's random state, the
// running sums of the epoch's metrics, and the options that shape the run are all in the
// checkpoint. A resumed run makes the same steps as an unbroken one, bit for bit, if it has the
// same world size; with another one it keeps the global batch and the order of samples.

struct Checkpoint {
  formats::TrainPosition position;
  int64_t world_size = 1;
  int64_t global_batch = 0;
  /// What the run was started with: an object, for the record and to refuse an unfit resume.
  Json plan = Json::object();
  /// The loop's own state, an object: running sums, schedule, early stopping, best epoch.
  Json loop = Json::object();
  bool is_best = false;           ///< of the epochs so far; not stored here, see `best` below
  tensor::NamedTensorList model;  ///< parameters and buffers by name
  tensor::NamedTensorList optimizer;
  tensor::NamedTensorList rng;  ///< "rank.0", …: states of the ranks' generators // [5056] uint8
};

/// Writes `checkpoints/step-N` under `output`: three safetensors files and state.json with their
/// sizes and CRC-32, in a temporary folder that is synced and then renamed; then points `best`
/// (if is_best) and `latest` to it. Returns the folder. Throws an environment error and leaves
/// earlier checkpoints and `latest` as they were.
std::filesystem::path write_checkpoint(const std::filesystem::path& output,
                                       const Checkpoint& checkpoint);

/// Reads one `step-N` folder. Throws a usage error that names the file and what is wrong with it:
/// missing, cut, altered.
Checkpoint read_checkpoint(const std::filesystem::path& folder);

/// The folder to resume from: `path` itself if it is a checkpoint, else what its `latest` names.
/// Throws a usage error.
std::filesystem::path find_checkpoint(const std::filesystem::path& path);

/// The checkpoint to resume from, read. Throws a usage error; if the checkpoint is damaged, the
/// hint names the newest one before it that is whole.
Checkpoint load_checkpoint(const std::filesystem::path& path);

/// Steps of the checkpoints under `output`, whole or not, newest first.
std::vector<int64_t> checkpoint_steps(const std::filesystem::path& output);

/// The newest checkpoint under `output` with a step below `step` that reads without an error.
std::optional<std::filesystem::path> checkpoint_before(const std::filesystem::path& output,
                                                       int64_t step);

/// The checkpoint that `best` names, if there is one that can be found.
std::optional<std::filesystem::path> best_checkpoint(const std::filesystem::path& output);

/// Removes all but the newest `keep` checkpoints (at least one stays), the one that `best` names,
/// and what a killed writer left behind.
void remove_old_checkpoints(const std::filesystem::path& output, int64_t keep);

}  // namespace muster::train
