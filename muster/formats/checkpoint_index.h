// state.json of a checkpoint: where the run stands, and which files belong to it. Torch-free, so
// that it is fuzzed under sanitizers and read by commands that need no LibTorch.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "muster/base/json.h"

namespace muster::formats {

/// Where a run stands: after `step` optimizer steps, `samples` into `epoch`.
struct TrainPosition {
  int64_t step = 0;
  int64_t epoch = 0;    ///< 0-based
  int64_t samples = 0;  ///< consumed in this epoch by finished steps of all ranks together

  bool operator==(const TrainPosition&) const = default;
};

/// A file beside state.json, as it was written.
struct CheckpointPart {
  uint64_t bytes = 0;
  uint32_t crc32 = 0;  ///< of all its bytes, as zlib's crc32 (ISO 3309)

  bool operator==(const CheckpointPart&) const = default;
};

struct CheckpointIndex {
  TrainPosition position;
  int64_t world_size = 1;
  int64_t global_batch = 1;
  Json plan = Json::object();                   ///< what the run was started with
  Json loop = Json::object();                   ///< the training loop's own state
  std::map<std::string, CheckpointPart> files;  ///< by file name: model.safetensors, …

  bool operator==(const CheckpointIndex&) const = default;
};

/// The format that is written, and the only one that is read.
constexpr int64_t kCheckpointFormat = 2;

/// The text of state.json.
std::string to_state_json(const CheckpointIndex& index);

/// Reads it back. Strict: the format number, every field there, whole numbers in their ranges
/// (step, epoch, samples and bytes from 0, world size and batch from 1, CRC-32 within 32 bits),
/// plan and loop objects, plain file names. Fields that are not ours are passed over, so that a
/// later version of Muster may add some without a new format. Throws a usage error that names
/// `where` (the path of state.json), the field and its value. Pure; any thread.
CheckpointIndex parse_checkpoint_index(std::string_view text, const std::string& where);

}  // namespace muster::formats
