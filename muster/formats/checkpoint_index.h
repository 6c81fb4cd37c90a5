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
  int64_t format = 0;  ///< as read; what is written is kCheckpointFormat
  TrainPosition position;
  int64_t world_size = 1;
  int64_t global_batch = 1;
  int64_t best_step = -1;      ///< where the best epoch so far ended; -1: there is none, or unknown
  Json plan = Json::object();  ///< what the run was started with
  Json loop = Json::object();  ///< the training loop's own state
  std::map<std::string, CheckpointPart> files;  ///< by file name: model.safetensors, …

  bool operator==(const CheckpointIndex&) const = default;
};

/// The format that is written. Format 2, which is read as well, has neither best_step nor checksum.
constexpr int64_t kCheckpointFormat = 3;

/// The text of state.json. Its last line is a checksum over all that stands before it, and so over
/// names, sizes and checksums of the other files.
std::string to_state_json(const CheckpointIndex& index);

/// `object`, the text of a JSON object with at least one member, with that last line as a further
/// member.
std::string with_checksum(std::string_view object);

/// The text of a state.json that says another plan, and is else as it was: of its format, with
/// fields that are not ours. Throws as parse_checkpoint_index().
std::string with_plan(std::string_view text, const Json& plan, const std::string& where);

/// Reads it back. Strict: the format number, the checksum (so that any changed byte is refused),
/// every field there, whole numbers in their ranges (step, epoch, samples and bytes from 0, world
/// size and batch from 1, best_step from -1, CRC-32 within 32 bits), plan and loop objects, plain
/// file names. Fields that are not ours are passed over, so that a later version of Muster may add
/// some without a new format. Throws a usage error that names `where` (the path of state.json), the
/// field and its value. Pure; any thread.
CheckpointIndex parse_checkpoint_index(std::string_view text, const std::string& where);

}  // namespace muster::formats
