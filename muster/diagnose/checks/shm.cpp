// /dev/shm, through which processes of a host share tensors.
#include "muster/base/text.h"
#include "muster/diagnose/surroundings/check.h"

namespace muster::diagnose {
namespace {

constexpr uint64_t kContainersDefault = 64ULL << 20;
constexpr uint64_t kEnoughShm = 1ULL << 30;
constexpr const char* kShmFolder = "/dev/shm";

/// The kind of file system mounted at /dev/shm by /proc/self/mounts; empty if none is.
std::string mounted_kind(const Surroundings& surroundings) {
  std::string kind;
  for (const std::string& line : split(surroundings.file("/proc/self/mounts").value_or(""), '\n')) {
    const std::vector<std::string> words = split(line, ' ');
    if (words.size() > 2 && words[1] == kShmFolder) kind = words[2];
  }
  return kind;
}

std::vector<CheckResult> run_shm(const Surroundings& surroundings) {
  CheckResult result{.name = "shm",
                     .rule = "a tmpfs of at least 1 GiB (NCCL, loader workers, the shm backend)"};
  const auto space = surroundings.space(surroundings.path(kShmFolder));
  if (!space) {
    result.verdict = Verdict::kFail;
    result.value = "there is no /dev/shm";
    result.hint = "mount a tmpfs there";
    return {result};
  }
  const std::string kind = mounted_kind(surroundings);
  result.value = concat(human_bytes(space->total_bytes),
                        ", ",
                        human_bytes(space->free_bytes),
                        " free",
                        kind.empty()      ? ", not mounted"
                        : kind == "tmpfs" ? ""
                                          : ", " + kind);
  if (space->total_bytes < kEnoughShm || space->free_bytes < kContainersDefault) {
    result.verdict = space->free_bytes < kContainersDefault / 4 ? Verdict::kFail : Verdict::kWarn;
    result.hint = space->total_bytes <= kContainersDefault
                      ? "this is a container's default: docker run --shm-size 8g, or --ipc host"
                      : "mount -o remount,size=8g /dev/shm, or remove what dead jobs left there";
  } else if (kind != "tmpfs") {
    result.verdict = Verdict::kWarn;
    result.hint = "what is shared there goes to a disk: mount a tmpfs at /dev/shm";
  }
  return {result};
}

}  // namespace

extern constinit const CheckEntry shm_entry{"shm", "size and kind of /dev/shm", &run_shm};

}  // namespace muster::diagnose
