// Checkpoints: all that a run needs to go on exactly, written so that a crash at any byte leaves
// the one before it whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
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

/// The file of --ema-decay's averages in a checkpoint, and in Checkpoint::more.
inline constexpr std::string_view kAverages = "ema";

struct Checkpoint {
  formats::TrainPosition position;
  int64_t world_size = 1;
  int64_t global_batch = 0;
  /// What the run was started with: an object, for the record and to refuse an unfit resume.
  Json plan = Json::object();
  /// The loop's own state, an object: running sums, schedule, early stopping, best epoch.
  Json loop = Json::object();
  int64_t best_step = -1;         ///< where the best epoch so far ended; -1: none has, or unknown
  tensor::NamedTensorList model;  ///< parameters and buffers by name
  tensor::NamedTensorList optimizer;
  /// What only some runs have, by the name of its file: "ema", "comm_hook".
  std::map<std::string, tensor::NamedTensorList> more;
  tensor::NamedTensorList rng;   ///< "rank.0", …: states of the ranks' generators // [5056] uint8
  std::filesystem::path folder;  ///< where it was read from; not stored
  bool is_averaged = false;      ///< `model` has averages, not what was trained; not stored
  bool has_checksum = true;      ///< of state.json, when read: false for those of format 2
};

/// Writes `checkpoints/step-N` under `output`: safetensors files and state.json with their
/// sizes and CRC-32, in a temporary folder that is synced and then renamed; then points `best`
/// (if it is the best epoch's) and `latest` to it. Returns the folder. Throws an environment error
/// and leaves earlier checkpoints and `latest` as they were.
std::filesystem::path write_checkpoint(const std::filesystem::path& output,
                                       const Checkpoint& checkpoint);

/// Reads one `step-N` folder. Throws a usage error that names the file and what is wrong with it:
/// missing, cut, altered, or under another step's name.
Checkpoint read_checkpoint(const std::filesystem::path& folder);

/// The folder to resume from: `path` itself if it is a checkpoint, whole or not, else what its
/// `latest` names. Throws a usage error, whose hint names the newest whole checkpoint, if there is one.
std::filesystem::path find_checkpoint(const std::filesystem::path& path);

/// The checkpoint to resume from, read. Throws a usage error; if the checkpoint is damaged, the
/// hint names the newest one before it that is whole, else the newest one.
Checkpoint load_checkpoint(const std::filesystem::path& path);

struct FoundCheckpoint {
  std::optional<Checkpoint> checkpoint;  ///< none: there is nothing whole to go on from
  std::string
      remark;  ///< why it is not what `latest` names, or not the run that was there; else empty
};

/// What --resume auto goes on from: what `latest` names, or if that is damaged the newest whole one
/// before it, or without `latest` the newest whole one. Throws as load_checkpoint() where `latest` is
/// and nothing before it is whole.
FoundCheckpoint find_whole(const std::filesystem::path& output);

/// The folder of the run that the checkpoint belongs to: PATH of PATH/checkpoints/NAME. Nothing for
/// one that lies elsewhere (a copy, say).
std::optional<std::filesystem::path> run_of(const std::filesystem::path& checkpoint);

/// Steps of the checkpoints under `output`, whole or not, newest first.
std::vector<int64_t> checkpoint_steps(const std::filesystem::path& output);

/// The newest checkpoint under `output` with a step below `step` that reads without an error.
std::optional<std::filesystem::path> checkpoint_before(const std::filesystem::path& output,
                                                       int64_t step);

/// The best epoch's checkpoint of a run. Throws as read_checkpoint() does, with a hint.
Checkpoint read_best(const std::filesystem::path& output, int64_t step);

/// The checkpoint that `best` names, if there is one that can be found.
std::optional<std::filesystem::path> best_checkpoint(const std::filesystem::path& output);

/// Where the best epoch ended that a checkpoint knows of; nothing if it knows none or is damaged.
std::optional<int64_t> best_step_of(const std::filesystem::path& checkpoint);

/// The step of the folder that the file `latest` or `best` names; nothing if there is no such file
/// or it names no step.
std::optional<int64_t> step_named_by(const std::filesystem::path& file);

/// PATH/checkpoints/step-N of a run's folder PATH.
std::filesystem::path checkpoint_folder(const std::filesystem::path& output, int64_t step);

/// Points a file `latest` or `best` to a step. Atomic. Throws an environment error.
void name_step(const std::filesystem::path& file, int64_t step);

/// Removes checkpoints up to the one that `latest` names, but for the newest `keep` of these (at
/// least one), the best epochs that they know of, so that a run can go back to each of them, and the
/// one that `best` names. Checkpoints behind `latest` are nothing that this run has saved: they
/// stay.
void remove_old_checkpoints(const std::filesystem::path& output, int64_t keep);

/// What a temporary folder's name begins with.
inline constexpr std::string_view kUnfinished = ".unfinished-";

}  // namespace muster::train
