#include "muster/train/checkpoints/kept_plan.h"

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/formats/checkpoint_index.h"
#include "muster/train/checkpoints/checkpoint.h"

namespace muster::train {
namespace {

namespace fs = std::filesystem;

fs::path state_of(const fs::path& checkpoint) { return checkpoint / "state.json"; }

}  // namespace

std::optional<Json> kept_plan(const fs::path& run) {
  for (;;) {
    const std::optional<int64_t> step = step_named_by(run / "latest");
    if (!step) return std::nullopt;
    const fs::path file = state_of(checkpoint_folder(run, *step));
    try {
      return formats::parse_checkpoint_index(read_file(file), file.string()).plan;
    } catch (const Error&) {
      // Else the run has saved, and removed that one.
      if (step_named_by(run / "latest") == step) return std::nullopt;
    }
  }
}

void withdraw_config(const fs::path& run) {
  if (!fs::exists(run / kConfigFile)) return;
  std::error_code error;
  fs::rename(run / kConfigFile, run / kConfigBefore, error);
  if (!error) return;
  throw environment_error(
      {.refused = concat("cannot rename ", (run / kConfigFile).string()), .rule = error.message()});
}

void keep_plan(const fs::path& checkpoint, const Json& plan) {
  const fs::path file = state_of(checkpoint);
  if (!fs::exists(file)) return;
  write_file_atomic(file, formats::with_plan(read_file(file), plan, file.string()));
}

}  // namespace muster::train
