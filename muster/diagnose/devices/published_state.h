// What a process of ours says of itself while it runs, above all of its allocator, for whoever looks
// at the machine: `muster gpu`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/rank_env.h"
#include "muster/diagnose/record/process_life.h"

namespace muster::diagnose {

// Note [Status files]
// A process that takes part has one file, <folder>/<pid>-<start>.status, for as long as it lives:
//   muster-status 1 <16 hex digits> <8 digits>\n     FNV-1a of the body, and its bytes
//   {"pid":…,"started":…,"host":…,"program":…,…}     the body: one object of JSON
// What lies behind the body is left over from a longer one and does not count.
//   - It is written anew by one pwrite. A reader that falls into the middle of that sees it by the
//     sum and reads again: nobody waits for anybody, and the reader needs no right to write.
//   - The folder is /dev/shm/muster-<uid> (MUSTER_STATUS_DIR names another), the same for a session,
//     a cron job and a Slurm step, which XDG_RUNTIME_DIR is not. It is memory, belongs to the user
//     and is for him alone; one of somebody else, or open to others, is refused by both sides.
//   - The number of a process is given again after its death, so a file counts only while a process
//     of that number has that start, on this boot and in this namespace of processes (life_of).
//     Those of dead processes are removed by the next writer, never by a reader.
//   - One folder is seen from several containers if they share /dev/shm. A file of another
//     namespace is counted, and not shown: its number means another process here.

/// A caching allocator on one device, in bytes.
struct PublishedDevice {
  std::string device;  ///< UUID ("GPU-…", "MIG-…"), PCI bus ("0000:3b:00.0"), or "cpu"
  std::string name;    ///< as the program calls it: "cuda:0"
  uint64_t allocated_bytes = 0;  ///< in tensors that live
  uint64_t reserved_bytes = 0;   ///< that the allocator has from the driver
  uint64_t peak_allocated_bytes = 0, peak_reserved_bytes = 0;
  uint64_t retries = 0;        ///< times that it emptied its cache to have room
  uint64_t out_of_memory = 0;  ///< times that it had none all the same
  bool operator==(const PublishedDevice&) const = default;
};

struct PublishedState {
  ProcessId process = {};              ///< whose it is; the publisher fills it
  std::string program;                 ///< "muster train"
  std::string doing;                   ///< "epoch 2, step 311"
  int64_t rank = -1, world_size = -1;  ///< -1: no rank
  double updated_unix_s = 0;
  std::vector<PublishedDevice> devices;
  bool operator==(const PublishedState&) const = default;
};

inline constexpr size_t kMaxPublishedBytes = 64 << 10, kMaxPublishedDevices = 64,
                        kMaxPublishedText = 256;

/// The whole file. Texts are cut at kMaxPublishedText bytes, devices at kMaxPublishedDevices.
std::string published_text(const PublishedState& state);

/// The file with this body, whatever it is: first line and body.
std::string status_file_of(std::string_view body);

/// Throws a usage error for what no writer wrote: a wrong sum, a missing or wrong value.
PublishedState parse_published(std::string_view bytes, std::string_view where);

/// Note [Status files].
std::filesystem::path status_folder(const EnvLookup& environment = process_environment);

/// The writer: one for a process, one thread. A failure is no error of the program that runs, so
/// nothing throws: is_open() and why() tell.
class StatePublisher {
 public:
  explicit StatePublisher(std::filesystem::path folder = status_folder());
  /// Removes the file, but not in a child that was forked.
  ~StatePublisher();
  StatePublisher(const StatePublisher&) = delete;
  StatePublisher& operator=(const StatePublisher&) = delete;

  /// Writes `state` with this process and the time; about 10 µs, so once a step at most. False if
  /// it could not, and in a child that was forked.
  bool publish(PublishedState state);

  bool is_open() const { return fd_ >= 0; }
  const std::string& why() const { return why_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  ProcessId process_;
  std::filesystem::path path_;
  std::string why_;
  int fd_ = -1;
};

struct PublishedFiles {
  std::vector<PublishedState> states;  ///< of processes that live, by their numbers
  int64_t dead = 0;                    ///< files of processes that have ended
  int64_t elsewhere = 0;               ///< of another namespace of processes, or another host
  int64_t unreadable = 0;              ///< what no writer wrote, or another version
  std::string refused = {};  ///< why the folder does not count; empty: it does, or is not there
};

/// Never throws for what it finds, and writes nothing. Any thread.
PublishedFiles read_published(const std::filesystem::path& folder = status_folder());

}  // namespace muster::diagnose
