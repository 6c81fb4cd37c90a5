// The folder that a run would write to.
#include "muster/base/text.h"
#include "muster/diagnose/surroundings/check.h"

namespace muster::diagnose {
namespace {

constexpr uint64_t kEnoughDisk = 10ULL << 30, kLittleDisk = 1ULL << 30;
constexpr uint64_t kFewFilesLeft = 10000;
constexpr double kSlowSyncS = 0.25;

std::vector<CheckResult> run_disk(const Surroundings& surroundings) {
  CheckResult room{.name = "disk", .rule = "at least 10 GiB and 10,000 files for checkpoints"};
  const std::string folder = surroundings.output.string();
  const auto space = surroundings.space(surroundings.output);
  if (!space) {
    room.verdict = Verdict::kFail;
    room.value = concat("there is no folder ", folder);
    room.hint = "mkdir -p it, or name another with --output";
    return {room};
  }
  room.value = concat(human_bytes(space->free_bytes), " free in ", folder);
  // Some file systems have no number of files: 0 then.
  const bool few_files = space->free_files > 0 && space->free_files < kFewFilesLeft;
  if (space->free_bytes < kEnoughDisk || few_files) {
    room.verdict = space->free_bytes < kLittleDisk ? Verdict::kFail : Verdict::kWarn;
    room.hint = "delete old runs, keep fewer checkpoints (--keep-checkpoints), or write elsewhere";
    if (few_files) room.value += concat(", room for ", space->free_files, " files");
  }
  CheckResult sync{.name = "disk.sync", .rule = "a small file is on the disk within 0.25 s"};
  std::string why;
  const auto seconds = surroundings.sync(surroundings.output, why);
  if (!seconds) {
    sync.verdict = Verdict::kFail;
    sync.value = concat("cannot write to ", folder, ": ", why);
    sync.hint = "choose another folder, or make this one writable";
  } else {
    sync.value = human_duration(*seconds);
    if (*seconds > kSlowSyncS) {
      sync.verdict = Verdict::kWarn;
      sync.hint = "checkpoints and studies wait for this: use a local disk, and copy afterwards";
    }
  }
  return {room, sync};
}

}  // namespace

extern constinit const CheckEntry disk_entry{
    "disk", "room and speed of the output folder", &run_disk};

}  // namespace muster::diagnose
