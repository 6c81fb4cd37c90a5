// The memory that the ranks of one `shm` group share.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "muster/base/file.h"
#include "muster/distributed/call/contribution.h"

namespace muster::distributed {

// Note [Shared segment]
// A segment is anonymous memory (memfd_create): it has no name in any file system, so that nothing
// is left after kill -9, and /dev/shm, 64 MB in a container by default, does not bound it. Rank 0
// makes it and tells its peers through the store where: /proc/<pid>/fd/<n>, which they open and
// compare by a random number inside. Where that is refused (another user, a hardened /proc), rank 0
// takes a file of /dev/shm instead and removes its name as soon as all ranks are in. Whether a rank
// could open it is agreed through the store, so that all ranks go on or all refuse, for one reason.
//
// Layout: head; a RankBlock per rank; a table of sizes per rank and parity; two slots of slot_bytes
// per rank; a ring of channel_bytes per ordered pair of ranks. Pages are taken when they are first
// touched, and kept: a group that only sums small tensors costs some pages.
// For n ranks a slot has 512 KiB up to 16 ranks and 16 MiB / 2n beyond (64 KiB at least), a channel
// 4 MiB for 2 ranks and 16 MiB / n² beyond (4 KiB at least), powers of two: together 18 MiB for 2
// ranks, 20 MiB for 4, 24 MiB for 8, 32 to 33 MiB for 16 to 64, which is the limit. A file of /dev/shm
// is taken whole at once, so its channels have 256 KiB at most: 3 MiB for 2 ranks, 8 MiB for 4.

enum class RankState : uint32_t { kJoining, kIn, kEnded, kFailed };

struct alignas(64) SegmentHead {
  uint64_t magic = 0;
  uint64_t nonce = 0;
  alignas(64) std::atomic<uint64_t> arrived{0};  ///< steps times ranks, ever growing
  alignas(64) std::atomic<uint32_t> epoch{0};    ///< steps that all ranks came to; a futex
  std::atomic<uint32_t> sleepers{0};             ///< on epoch
  std::atomic<uint32_t> failures{0};             ///< ranks that failed
};

/// One rank's lines. Written by it alone, but for the doorbell.
struct alignas(64) RankBlock {
  static constexpr size_t kReasonBytes = 1024;
  std::atomic<uint32_t> posted{0};  ///< steps that this rank came to
  std::atomic<uint32_t> state{0};   ///< RankState
  std::atomic<int32_t> pid{0};
  std::atomic<uint64_t> last_op{0};  ///< sequence << 8 | OpType of the operation last begun
  OpSignature signatures[2];         ///< by parity of the step
  char reason[kReasonBytes] = {};    ///< why it failed or threw; written before `state`
  bool threw = false;                ///< it has ended for an exception of its own; as `reason`
  alignas(64) std::atomic<uint32_t> doorbell{0};  ///< rung by peers; a futex
  std::atomic<uint32_t> listeners{0};             ///< on doorbell
  std::atomic<uint32_t> gives{0};  ///< not 0: it has ended, and still gives what it has sent
};

/// The two ends of a ring of bytes from one rank to another. Ever growing.
struct alignas(64) ChannelEnds {
  std::atomic<uint64_t> written{0};
  /// What `written` was when the ring was last empty: that position is at its first byte. Moved by the
  /// writer before it writes, so it is the same for all that lies between the ends.
  std::atomic<uint64_t> base{0};
  alignas(64) std::atomic<uint64_t> read{0};
};

class ShmSegment {
 public:
  /// Memory for ranks that are threads of this process: no meeting. `sparse` false: as large as it is
  /// by way of /dev/shm.
  static std::shared_ptr<ShmSegment> local(int world_size, bool sparse = true);

  /// Collective over the ranks that meet in the store; `host` is this rank's host identity. Throws
  /// BackendUnfit on all ranks alike if one of them cannot open it. `anonymous` false: at once by
  /// way of /dev/shm.
  static std::shared_ptr<ShmSegment> meet(
      c10d::Store& store, int rank, int world_size, const std::string& host, bool anonymous = true);

  ~ShmSegment();
  ShmSegment(const ShmSegment&) = delete;

  int world_size() const { return world_size_; }
  SegmentHead& head() const { return *reinterpret_cast<SegmentHead*>(base_); }
  RankBlock& rank(int rank) const;
  ChannelEnds& ends(int from, int to) const;
  std::byte* channel(int from, int to) const;
  std::byte* slot(int rank, unsigned parity) const;
  /// [2 * world size]: bytes for each rank, bytes awaited from each rank (-1: any).
  int64_t* table(int rank, unsigned parity) const;

  size_t slot_bytes() const { return slot_bytes_; }
  size_t channel_bytes() const { return channel_bytes_; }
  /// Address space; memory is what was touched of it.
  size_t total_bytes() const { return total_bytes_; }

  /// This rank came, ended or failed: tells whoever waits. `threw`: see RankBlock.
  void set_state(int rank,
                 RankState state,
                 const std::string& reason = "",
                 bool threw = false) const;
  void wake_everybody() const;

 private:
  /// `sparse`: what is never touched of it takes no memory.
  ShmSegment(int world_size, bool sparse);
  /// With `name` a file of /dev/shm, whose name it becomes as soon as there is one.
  static std::shared_ptr<ShmSegment> make(
      int world_size, bool sparse, UniqueFd& fd, std::string* name, std::string& why);
  static std::shared_ptr<ShmSegment> open(int world_size,
                                          bool sparse,
                                          const std::string& announcement,
                                          const std::string& host,
                                          std::string& why);
  std::string map(int fd);
  void initialise();

  int world_size_;
  size_t slot_bytes_ = 0, channel_bytes_ = 0;
  size_t blocks_at_ = 0, ends_at_ = 0, tables_at_ = 0, slots_at_ = 0, channels_at_ = 0;
  size_t total_bytes_ = 0;
  std::byte* base_ = nullptr;
};

/// Empty if a segment can be made on this machine, else why not.
std::string shm_unavailable();

}  // namespace muster::distributed
