#include "muster/train/checkpoints/checkpoint.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/host.h"
#include "muster/base/mapped_file.h"
#include "muster/base/process_lock.h"
#include "muster/base/text.h"
#include "muster/formats/crc32.h"
#include "muster/train/checkpoints/folders.h"
#include "muster/train/checkpoints/saved_weights.h"

namespace muster::train {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kPart = ".safetensors";

[[noreturn]] void refuse_checkpoint(const fs::path& folder,
                                    const std::string& rule,
                                    const std::string& value = "") {
  throw usage_error({.refused = "checkpoint " + folder.string() + " cannot be used",
                     .rule = rule,
                     .value = value});
}

/// "step-120" -> 120.
std::optional<int64_t> step_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  return to_int(std::string_view(name).substr(kPrefix.size()));
}

/// "step-7/", as a shell completes it, names the same folder.
fs::path without_slash(const fs::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

std::string whole_hint(const fs::path& checkpoint) {
  return "the checkpoint before it is whole: --resume " + checkpoint.string();
}

std::string newest_hint(const fs::path& checkpoint) {
  return "the newest that is whole: --resume " + checkpoint.string();
}

constexpr int64_t kNewest = INT64_MAX;

/// A folder among a run's checkpoints, whole or not.
bool is_among_checkpoints(const fs::path& path) {
  return fs::is_directory(path) && step_of(without_slash(path)) && run_of(path);
}

/// "." and "../step-7" as well.
int64_t absolute_step(const fs::path& folder) {
  return step_of(fs::weakly_canonical(folder)).value_or(0);
}

/// The whole checkpoint that there is instead of a damaged one: the newest before it, else the newest.
std::string hint_instead_of(const fs::path& damaged) {
  const auto run = run_of(damaged);
  if (!run) return "";
  if (const auto before = checkpoint_before(*run, absolute_step(damaged)))
    return whole_hint(*before);
  const auto newest = checkpoint_before(*run, kNewest);
  return newest ? newest_hint(*newest) : "";
}

/// The tensors of one file, which must be as state.json says.
tensor::NamedTensorList read_part(const fs::path& folder,
                                  const std::string& name,
                                  const formats::CheckpointIndex& index) {
  const auto found = index.files.find(name);
  if (found == index.files.end())
    refuse_checkpoint(folder, concat("state.json does not list ", name));
  const formats::CheckpointPart& expected = found->second;
  const fs::path path = folder / name;
  if (!fs::exists(path)) refuse_checkpoint(folder, concat(name, " is missing"));
  // Mapped, so that the file's bytes are in memory once: in the page cache, for the checksum and
  // for the tensors.
  const std::shared_ptr<MappedFile> file = MappedFile::open(path);
  const std::string_view bytes = file->bytes();
  if (bytes.size() != expected.bytes) {
    refuse_checkpoint(
        folder, concat(name, " has ", expected.bytes, " bytes"), concat(bytes.size(), " bytes"));
  }
  if (formats::crc32_of(bytes) != expected.crc32)
    refuse_checkpoint(folder, concat(name, " was altered: its CRC-32 differs from state.json"));
  return tensor::read_safetensors(file, path.string()).tensors;
}

/// The files that only some runs have.
void read_more(const fs::path& folder,
               const formats::CheckpointIndex& index,
               Checkpoint& checkpoint) {
  for (const auto& [file, part] : index.files) {
    if (!file.ends_with(kPart)) continue;  // of a later version
    const std::string name = file.substr(0, file.size() - kPart.size());
    if (name == "model" || name == "optimizer" || name == "rng") continue;
    checkpoint.more[name] = read_part(folder, file, index);
  }
}

/// Writes the files of a checkpoint into an empty folder.
void write_parts(const fs::path& folder, const Checkpoint& checkpoint) {
  formats::CheckpointIndex index{.position = checkpoint.position,
                                 .world_size = checkpoint.world_size,
                                 .global_batch = checkpoint.global_batch,
                                 .best_step = checkpoint.best_step,
                                 .plan = checkpoint.plan,
                                 .loop = checkpoint.loop};
  const auto write_part = [&](const std::string& name, const tensor::NamedTensorList& tensors) {
    formats::CheckpointPart part{.bytes = 0, .crc32 = formats::crc32_of("")};
    tensor::write_safetensors(
        folder / name, {tensors, {}}, {.on_bytes = [&](std::string_view bytes) {
          part.bytes += bytes.size();
          part.crc32 = formats::crc32_of(bytes, part.crc32);
        }});
    index.files[name] = part;
  };
  write_part("model.safetensors", checkpoint.model);
  write_part("optimizer.safetensors", checkpoint.optimizer);
  write_part("rng.safetensors", checkpoint.rng);
  for (const auto& [name, tensors] : checkpoint.more) write_part(concat(name, kPart), tensors);
  write_file_atomic(folder / "state.json", formats::to_state_json(index));
}

formats::CheckpointIndex read_index(const fs::path& folder) {
  const fs::path path = folder / "state.json";
  if (!fs::exists(path)) refuse_checkpoint(folder, "state.json is missing");
  formats::CheckpointIndex index = formats::parse_checkpoint_index(read_file(path), path.string());
  const std::optional<int64_t> step = step_of(folder);
  if (step && *step != index.position.step) {
    refuse_checkpoint(folder,
                      "a folder step-N holds the state after N steps",
                      concat("state.json of step ", index.position.step));
  }
  return index;
}

/// For format 2, which counts epochs alone.
int64_t best_step_by_epochs(const formats::CheckpointIndex& index) {
  const Json::json_pointer epoch("/best/best_epoch"), steps("/steps_per_epoch");
  if (!index.loop.contains(epoch) || !index.loop[epoch].is_number_integer() ||
      !index.plan.contains(steps) || !index.plan[steps].is_number_integer())
    return -1;
  const int64_t best = (index.loop[epoch].get<int64_t>() + 1) * index.plan[steps].get<int64_t>();
  return best > 0 && best <= index.position.step ? best : -1;
}

int64_t best_step_of(const formats::CheckpointIndex& index) {
  return index.format >= formats::kCheckpointFormat ? index.best_step : best_step_by_epochs(index);
}

/// All but the tensors.
Checkpoint without_tensors(const fs::path& folder, formats::CheckpointIndex& index) {
  Checkpoint checkpoint;
  checkpoint.position = index.position;
  checkpoint.world_size = index.world_size;
  checkpoint.global_batch = index.global_batch;
  checkpoint.has_checksum = index.format >= formats::kCheckpointFormat;
  checkpoint.best_step = best_step_of(index);
  checkpoint.folder = folder;
  checkpoint.loop = std::move(index.loop);
  checkpoint.plan = std::move(index.plan);
  return checkpoint;
}

/// What to say of a folder whose run cannot go on, because nothing of its state is there; "" for one
/// without a run.
std::string without_checkpoints(const fs::path& output) {
  const fs::path metrics = output / "metrics.csv";
  if (!fs::exists(metrics)) return "";
  const std::string text = read_file(metrics);
  if (std::count(text.begin(), text.end(), '\n') < 2)
    return "";  // names of columns: killed in its first epoch
  return concat(
      output.string(),
      " has the numbers of a run (metrics.csv) and no checkpoint of it: --resume auto begins "
      "anew, and writes its own over them");
}

}  // namespace

std::optional<int64_t> best_step_of(const fs::path& checkpoint) try {
  const int64_t step = best_step_of(read_index(checkpoint));
  return step >= 0 ? std::optional(step) : std::nullopt;
} catch (const Error&) {
  return std::nullopt;  // damaged: nobody goes back to it
}

fs::path write_checkpoint(const fs::path& output, const Checkpoint& checkpoint) {
  const fs::path folder = checkpoint_folder(output, checkpoint.position.step);
  make_writable_folder(folder.parent_path(), "checkpoint folder");
  const fs::path unfinished =
      folder.parent_path() /
      concat(kUnfinished, checkpoint.position.step, '-', host_name(), '-', ::getpid());
  std::error_code error;
  fs::create_directory(unfinished, error);
  if (error)
    throw environment_error(
        {.refused = "cannot create " + unfinished.string(), .rule = error.message()});
  try {
    write_parts(unfinished, checkpoint);
    put_in_place(unfinished, folder);
    sync_folder(folder.parent_path());
    // First: a kill between the two leaves a `best` that the resumed run, which starts from the
    // older `latest`, comes to again.
    const int64_t step = checkpoint.position.step;
    if (checkpoint.best_step == step) name_step(output / "best", step);
    name_step(output / "latest", step);
  } catch (const fs::filesystem_error& failure) {
    fs::remove_all(unfinished, error);
    throw environment_error({.refused = "cannot write checkpoint " + folder.string(),
                             .rule = failure.code().message()});
  } catch (...) {
    fs::remove_all(unfinished, error);
    throw;
  }
  return folder;
}

Checkpoint read_checkpoint(const fs::path& path) {
  const fs::path folder = without_slash(path);
  formats::CheckpointIndex index = read_index(folder);
  Checkpoint checkpoint = without_tensors(folder, index);
  checkpoint.model = read_part(folder, "model.safetensors", index);
  checkpoint.optimizer = read_part(folder, "optimizer.safetensors", index);
  checkpoint.rng = read_part(folder, "rng.safetensors", index);
  read_more(folder, index, checkpoint);
  return checkpoint;
}

Checkpoint read_model(const fs::path& path) {
  const fs::path folder = without_slash(path);
  formats::CheckpointIndex index = read_index(folder);
  Checkpoint checkpoint = without_tensors(folder, index);
  checkpoint.model = read_part(folder, "model.safetensors", index);
  return checkpoint;
}

Checkpoint read_averages(const fs::path& path) {
  const fs::path folder = without_slash(path);
  formats::CheckpointIndex index = read_index(folder);
  const std::string file = concat(kAverages, kPart);
  if (!index.files.contains(file)) {
    throw usage_error({.refused = concat("averaged weights of ", folder.string()),
                       .rule = "the run was made with --ema-decay",
                       .value = "one without"});
  }
  Checkpoint checkpoint = without_tensors(folder, index);
  checkpoint.model = read_part(folder, file, index);
  checkpoint.is_averaged = true;
  return checkpoint;
}

std::optional<fs::path> run_of(const fs::path& checkpoint) {
  fs::path folder = without_slash(checkpoint);
  if (folder.parent_path().parent_path().empty()) folder = fs::weakly_canonical(folder);
  if (folder.parent_path().filename() != "checkpoints") return std::nullopt;
  return folder.parent_path().parent_path();
}

std::vector<int64_t> checkpoint_steps(const fs::path& output) {
  std::vector<int64_t> steps;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(output / "checkpoints", none)) {
    if (const auto step = step_of(entry.path())) steps.push_back(*step);
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

std::optional<fs::path> checkpoint_before(const fs::path& output, int64_t step) {
  for (const int64_t earlier : checkpoint_steps(output)) {
    if (earlier >= step) continue;
    try {
      read_checkpoint(checkpoint_folder(output, earlier));
      return checkpoint_folder(output, earlier);
    } catch (const Error&) {
      continue;  // damaged as well: look further back
    }
  }
  return std::nullopt;
}

fs::path find_checkpoint(const fs::path& path) {
  if (fs::exists(path / "state.json") || is_among_checkpoints(path)) return without_slash(path);
  if (!fs::exists(path / "latest")) {
    const auto owner = ProcessLock::holder_of(path / kRunLock);
    const auto newest = checkpoint_before(path, kNewest);
    throw usage_error(
        {.refused = "nothing to resume in " + path.string(),
         .rule = "a run's folder has a file `latest`, a checkpoint a file state.json",
         .value = owner ? concat(text_of(*owner), " trains there, and has saved nothing yet") : "",
         .hint = newest  ? newest_hint(*newest)
                 : owner ? "wait for its first checkpoint"
                 : fs::exists(path / kRunLock)
                     ? "a run that ended before its first checkpoint has nothing to go on with: "
                       "start it again as it was, without --resume"
                     : "name the folder that an earlier run got as --output"});
  }
  if (const auto step = step_named_by(path / "latest")) return checkpoint_folder(path, *step);
  const auto newest = checkpoint_before(path, kNewest);
  throw usage_error({.refused = concat((path / "latest").string(), " cannot be used"),
                     .rule = "it must name a folder step-N",
                     .value = concat('"', trim(read_file(path / "latest")), '"'),
                     .hint = newest ? newest_hint(*newest) : ""});
}

Checkpoint load_checkpoint(const fs::path& path) {
  const fs::path folder = find_checkpoint(path);
  try {
    return read_checkpoint(folder);
  } catch (const Error& error) {
    ErrorText text = error.text();
    if (std::string hint = hint_instead_of(folder); !hint.empty()) text.hint = std::move(hint);
    throw Error(error.kind(), text);
  }
}

FoundCheckpoint find_whole(const fs::path& output) {
  const auto instead = [&](const fs::path& whole, const std::string& why) {
    return FoundCheckpoint{
        .checkpoint = read_checkpoint(whole),
        .remark = concat(why, ": --resume auto takes the newest that is whole, ", whole.string())};
  };
  if (!fs::exists(output / "latest")) {
    const auto newest = checkpoint_before(output, kNewest);
    if (!newest) return {.remark = without_checkpoints(output)};
    return instead(*newest, concat(output.string(), " has checkpoints and no file `latest`"));
  }
  try {
    return {.checkpoint = read_checkpoint(find_checkpoint(output))};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) throw;  // what cannot be read now is perhaps whole
    const int64_t latest = step_named_by(output / "latest").value_or(kNewest);
    const auto before = checkpoint_before(output, latest);
    if (!before) return {.checkpoint = load_checkpoint(output)};
    return instead(*before, concat(error.text().refused, ": ", error.text().rule));
  }
}

Checkpoint read_best(const fs::path& output, int64_t step) {
  try {
    return read_checkpoint(checkpoint_folder(output, step));
  } catch (const Error& error) {
    ErrorText text = error.text();
    text.refused = "--test-weights best: " + text.refused;
    text.hint = "it is the best epoch's; resume with --test-weights last";
    throw Error(error.kind(), text);
  }
}

std::optional<fs::path> best_checkpoint(const fs::path& output) {
  const std::optional<int64_t> step = step_named_by(output / "best");
  if (!step || !fs::exists(checkpoint_folder(output, *step))) return std::nullopt;
  return checkpoint_folder(output, *step);
}

std::optional<int64_t> step_named_by(const fs::path& file) {
  if (!fs::exists(file)) return std::nullopt;
  return step_of(fs::path(trim(read_file(file))));
}

fs::path checkpoint_folder(const fs::path& output, int64_t step) {
  return output / "checkpoints" / concat(kPrefix, step);
}

void name_step(const fs::path& file, int64_t step) {
  write_file_atomic(file, concat(kPrefix, step, '\n'));
}

void remove_old_checkpoints(const fs::path& output, int64_t keep) {
  const std::optional<int64_t> latest = step_named_by(output / "latest");
  if (!latest) return;
  std::vector<int64_t> steps = checkpoint_steps(output);
  std::erase_if(steps, [&](int64_t step) { return step > *latest; });
  std::set<int64_t> kept{step_named_by(output / "best").value_or(-1)};
  const size_t newest = std::min(steps.size(), static_cast<size_t>(std::max<int64_t>(1, keep)));
  for (size_t i = 0; i < newest; ++i) {
    kept.insert(steps[i]);
    if (const auto best = best_step_of(checkpoint_folder(output, steps[i]))) kept.insert(*best);
  }
  std::error_code none;  // what cannot be removed now is tried again with the next checkpoint
  for (const int64_t step : steps) {
    if (!kept.contains(step)) fs::remove_all(checkpoint_folder(output, step), none);
  }
}

}  // namespace muster::train
