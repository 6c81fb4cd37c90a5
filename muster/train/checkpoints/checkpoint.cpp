#include "muster/train/checkpoints/checkpoint.h"

#include <algorithm>
#include <vector>

#include <errno.h>
#include <fcntl.h>
#include <libdeflate.h>
#include <stdio.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/mapped_file.h"
#include "muster/base/text.h"

namespace muster::train {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kUnfinished = ".unfinished-";

uint32_t crc32_of(std::string_view bytes, uint32_t before = 0) {
  return ::libdeflate_crc32(before, bytes.data(), bytes.size());
}

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

fs::path folder_of(const fs::path& output, int64_t step) {
  return output / "checkpoints" / concat(kPrefix, step);
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
  if (crc32_of(bytes) != expected.crc32)
    refuse_checkpoint(folder, concat(name, " was altered: its CRC-32 differs from state.json"));
  return tensor::read_safetensors(file, path.string()).tensors;
}

/// Renames `unfinished` to `folder`. If that is there already (a resumed run that repeats the
/// step), the two change places in one system call, so that a kill at any moment leaves a whole
/// folder under the name.
void put_in_place(const fs::path& unfinished, const fs::path& folder) {
  if (!fs::exists(folder)) return fs::rename(unfinished, folder);
  if (::renameat2(AT_FDCWD, unfinished.c_str(), AT_FDCWD, folder.c_str(), RENAME_EXCHANGE) != 0) {
    throw environment_error(
        {.refused = "cannot replace " + folder.string(), .rule = errno_text(errno)});
  }
  fs::remove_all(unfinished);
}

/// Writes the files of a checkpoint into an empty folder.
void write_parts(const fs::path& folder, const Checkpoint& checkpoint) {
  formats::CheckpointIndex index{.position = checkpoint.position,
                                 .world_size = checkpoint.world_size,
                                 .global_batch = checkpoint.global_batch,
                                 .plan = checkpoint.plan,
                                 .loop = checkpoint.loop};
  const auto write_part = [&](const std::string& name, const tensor::NamedTensorList& tensors) {
    formats::CheckpointPart part{.bytes = 0, .crc32 = crc32_of("")};
    tensor::write_safetensors(
        folder / name, {tensors, {}}, {.on_bytes = [&](std::string_view bytes) {
          part.bytes += bytes.size();
          part.crc32 = crc32_of(bytes, part.crc32);
        }});
    index.files[name] = part;
  };
  write_part("model.safetensors", checkpoint.model);
  write_part("optimizer.safetensors", checkpoint.optimizer);
  write_part("rng.safetensors", checkpoint.rng);
  write_file_atomic(folder / "state.json", formats::to_state_json(index));
}

}  // namespace

fs::path write_checkpoint(const fs::path& output, const Checkpoint& checkpoint) {
  const fs::path folder = folder_of(output, checkpoint.position.step);
  make_writable_folder(folder.parent_path(), "checkpoint folder");
  const fs::path unfinished =
      folder.parent_path() / concat(kUnfinished, checkpoint.position.step, "-", ::getpid());
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
    if (checkpoint.is_best) write_file_atomic(output / "best", folder.filename().string() + '\n');
    write_file_atomic(output / "latest", folder.filename().string() + '\n');
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

Checkpoint read_checkpoint(const fs::path& folder) {
  const fs::path path = folder / "state.json";
  if (!fs::exists(path)) refuse_checkpoint(folder, "state.json is missing");
  formats::CheckpointIndex index = formats::parse_checkpoint_index(read_file(path), path.string());
  Checkpoint checkpoint;
  checkpoint.position = index.position;
  checkpoint.world_size = index.world_size;
  checkpoint.global_batch = index.global_batch;
  checkpoint.loop = std::move(index.loop);
  checkpoint.plan = std::move(index.plan);
  checkpoint.model = read_part(folder, "model.safetensors", index);
  checkpoint.optimizer = read_part(folder, "optimizer.safetensors", index);
  checkpoint.rng = read_part(folder, "rng.safetensors", index);
  return checkpoint;
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
      read_checkpoint(folder_of(output, earlier));
      return folder_of(output, earlier);
    } catch (const Error&) {
      continue;  // damaged as well: look further back
    }
  }
  return std::nullopt;
}

fs::path find_checkpoint(const fs::path& path) {
  if (fs::exists(path / "state.json")) return path;
  if (!fs::exists(path / "latest")) {
    throw usage_error({.refused = "nothing to resume in " + path.string(),
                       .rule = "it is an output folder with a file `latest`, or one checkpoint",
                       .hint = "name the folder that an earlier run got as --output"});
  }
  const std::string name(trim(read_file(path / "latest")));
  if (!step_of(name))
    refuse_checkpoint(path / "latest", "it names a folder step-N", '"' + name + '"');
  return path / "checkpoints" / name;
}

Checkpoint load_checkpoint(const fs::path& path) {
  const fs::path folder = find_checkpoint(path);
  try {
    return read_checkpoint(folder);
  } catch (const Error& error) {
    ErrorText text = error.text();
    const std::string name = folder.filename().string();
    const auto step = to_int(name.substr(std::min(name.size(), name.find('-') + 1)));
    if (const auto before =
            checkpoint_before(folder.parent_path().parent_path(), step.value_or(0))) {
      text.hint = "the checkpoint before it is whole: --resume " + before->string();
    }
    throw Error(error.kind(), text);
  }
}

std::optional<fs::path> best_checkpoint(const fs::path& output) {
  if (!fs::exists(output / "best")) return std::nullopt;
  const std::string name(trim(read_file(output / "best")));
  const fs::path folder = output / "checkpoints" / name;
  if (!step_of(name) || !fs::exists(folder)) return std::nullopt;
  return folder;
}

void remove_old_checkpoints(const fs::path& output, int64_t keep) {
  const std::vector<int64_t> steps = checkpoint_steps(output);
  const std::optional<fs::path> best = best_checkpoint(output);
  std::error_code none;  // what cannot be removed now is tried again with the next checkpoint
  for (size_t i = static_cast<size_t>(std::max<int64_t>(1, keep)); i < steps.size(); ++i) {
    const fs::path folder = folder_of(output, steps[i]);
    if (folder != best) fs::remove_all(folder, none);
  }
  for (const auto& entry : fs::directory_iterator(output / "checkpoints", none)) {
    if (entry.path().filename().string().starts_with(kUnfinished))
      fs::remove_all(entry.path(), none);
  }
}

}  // namespace muster::train
