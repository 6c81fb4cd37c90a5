#include "muster/distributed/shm/shm_segment.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <random>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/meet/backend.h"
#include "muster/distributed/meet/host.h"
#include "muster/distributed/shm/futex.h"

namespace muster::distributed {
namespace {

// Changes with the layout: ranks of two builds must not meet.
constexpr uint64_t kMagic = 0x6d75737465720003ULL;
constexpr size_t kPage = 4096;
constexpr const char* kSaidByRankZero = "rank 0 made no segment";

size_t aligned(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

uint64_t random_number() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

/// Where a segment is, as rank 0 tells it: path, nonce and host, a line each.
struct Announcement {
  std::string path;
  uint64_t nonce = 0;
  std::string host;
};

std::string announcement_text(const Announcement& place) {
  return concat(place.path, '\n', place.nonce, '\n', place.host);
}

/// A file of /dev/shm, which is gone when this is. Empty: none.
struct NamedFile {
  std::string name;
  NamedFile() = default;
  NamedFile(const NamedFile&) = delete;
  ~NamedFile() {
    if (!name.empty()) ::shm_unlink(name.c_str());
  }
};

Announcement announced(const std::string& text) {
  const std::vector<std::string> lines = split(text, '\n');
  if (lines.size() < 3) return {};
  return {lines[0], std::strtoull(lines[1].c_str(), nullptr, 10), lines[2]};
}

}  // namespace

ShmSegment::ShmSegment(int world_size, bool sparse) : world_size_(world_size) {
  const auto n = static_cast<size_t>(world_size);
  slot_bytes_ = std::clamp<size_t>(std::bit_floor((16U << 20) / (2 * n)), 64U << 10, 512U << 10);
  channel_bytes_ = std::clamp<size_t>(
      std::bit_floor((16U << 20) / (n * n)), 4096, sparse ? 4U << 20 : 256U << 10);
  blocks_at_ = sizeof(SegmentHead);
  ends_at_ = blocks_at_ + n * sizeof(RankBlock);
  tables_at_ = ends_at_ + n * n * sizeof(ChannelEnds);
  slots_at_ = aligned(tables_at_ + n * 2 * aligned(2 * n * sizeof(int64_t), 64), kPage);
  channels_at_ = slots_at_ + n * 2 * slot_bytes_;
  total_bytes_ = channels_at_ + n * n * channel_bytes_;
}

ShmSegment::~ShmSegment() {
  if (base_ != nullptr) ::munmap(base_, total_bytes_);
}

RankBlock& ShmSegment::rank(int rank) const {
  return reinterpret_cast<RankBlock*>(base_ + blocks_at_)[rank];
}

ChannelEnds& ShmSegment::ends(int from, int to) const {
  return reinterpret_cast<ChannelEnds*>(base_ + ends_at_)[from * world_size_ + to];
}

std::byte* ShmSegment::channel(int from, int to) const {
  return base_ + channels_at_ + static_cast<size_t>(from * world_size_ + to) * channel_bytes_;
}

std::byte* ShmSegment::slot(int rank, unsigned parity) const {
  return base_ + slots_at_ + (static_cast<size_t>(rank) * 2 + parity) * slot_bytes_;
}

int64_t* ShmSegment::table(int rank, unsigned parity) const {
  const size_t each = aligned(2 * static_cast<size_t>(world_size_) * sizeof(int64_t), 64);
  return reinterpret_cast<int64_t*>(base_ + tables_at_ +
                                    (static_cast<size_t>(rank) * 2 + parity) * each);
}

std::string ShmSegment::map(int fd) {
  void* memory = ::mmap(nullptr, total_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return concat("mmap: ", errno_text(errno));
  base_ = static_cast<std::byte*>(memory);
  return "";
}

void ShmSegment::initialise() {
  auto* head = new (base_) SegmentHead;
  for (int r = 0; r < world_size_; ++r) new (&rank(r)) RankBlock;
  for (int from = 0; from < world_size_; ++from) {
    for (int to = 0; to < world_size_; ++to) new (&ends(from, to)) ChannelEnds;
  }
  head->nonce = random_number();
  head->magic = kMagic;
}

std::shared_ptr<ShmSegment> ShmSegment::make(
    int world_size, bool sparse, UniqueFd& fd, std::string* name, std::string& why) {
  std::shared_ptr<ShmSegment> segment(new ShmSegment(world_size, sparse));
  const bool named = name != nullptr;
  const std::string own_name = !named ? "" : concat("/muster-", ::getpid(), "-", random_number());
  const auto failed = [&](const char* call, int error) {
    why = concat(call, ": ", errno_text(error));
    return nullptr;
  };
  fd.reset(named ? ::shm_open(own_name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)
                 : ::memfd_create("muster-shm", MFD_CLOEXEC));
  if (!fd) return failed(named ? "shm_open" : "memfd_create", errno);
  if (named) *name = own_name;
  if (::ftruncate(fd.get(), static_cast<off_t>(segment->total_bytes_)) != 0)
    return failed("ftruncate", errno);
  // A file of /dev/shm is taken whole at once: where it does not fit, a later touch would be
  // SIGBUS.
  if (named) {
    const int error = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(segment->total_bytes_));
    if (error != 0) return failed("/dev/shm", error);
  }
  if (!segment->map(fd.get()).empty()) return failed("mmap", errno);
  segment->initialise();
  return segment;
}

std::shared_ptr<ShmSegment> ShmSegment::local(int world_size, bool sparse) {
  UniqueFd fd;
  std::string why;
  auto segment = make(world_size, sparse, fd, nullptr, why);
  if (!segment) throw BackendUnfit("shm: " + why);
  return segment;
}

std::shared_ptr<ShmSegment> ShmSegment::open(int world_size,
                                             bool sparse,
                                             const std::string& announcement,
                                             const std::string& host,
                                             std::string& why) {
  const Announcement place = announced(announcement);
  if (place.path.empty() || place.host != host) {
    why = place.path.empty() ? kSaidByRankZero : "it is not on rank 0's host";
    return nullptr;
  }
  std::shared_ptr<ShmSegment> segment(new ShmSegment(world_size, sparse));
  const UniqueFd fd(::open(place.path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat status {};
  if (!fd) {
    why = concat("cannot open ", place.path, " of rank 0: ", errno_text(errno));
  } else if (::fstat(fd.get(), &status) != 0 ||
             static_cast<size_t>(status.st_size) != segment->total_bytes_) {
    why = concat(place.path, " is not rank 0's segment");
  } else if (why = segment->map(fd.get()); why.empty()) {
    if (segment->head().magic != kMagic || segment->head().nonce != place.nonce)
      why = concat(place.path, " is not rank 0's segment, or is of another build of Muster");
  }
  return why.empty() ? segment : nullptr;
}

std::shared_ptr<ShmSegment> ShmSegment::meet(
    c10d::Store& store, int rank, int world_size, const std::string& host, bool anonymous) {
  std::string refusal;
  for (const bool named : {false, true}) {
    if (!named && !anonymous) continue;
    const std::string key = named ? "shm/named" : "shm/anonymous";
    UniqueFd fd;     // rank 0's; it stays open until all are in
    NamedFile file;  // as long
    std::string why;
    std::shared_ptr<ShmSegment> segment;
    if (rank == 0) {
      segment = make(world_size, !named, fd, named ? &file.name : nullptr, why);
      const std::string path =
          named ? "/dev/shm" + file.name : concat("/proc/", ::getpid(), "/fd/", fd.get());
      store.set(key, segment ? announcement_text({path, segment->head().nonce, host}) : "");
    } else {
      segment = open(world_size, !named, await_text(store, key, 0), host, why);
    }
    // Before the others know that this rank is in: from then on they watch this process.
    if (segment) segment->rank(rank).pid.store(::getpid());
    const auto reasons = exchange_texts(store, key + "/opened", rank, world_size, why);
    const auto refused = std::find_if(
        reasons.begin(), reasons.end(), [](const std::string& said) { return !said.empty(); });
    if (refused == reasons.end()) return segment;
    if (refusal.empty()) refusal = concat("rank ", refused - reasons.begin(), ": ", *refused);
  }
  throw BackendUnfit(refusal);
}

void ShmSegment::set_state(int rank, RankState state, const std::string& reason, bool threw) const {
  RankBlock& block = this->rank(rank);
  const size_t length = std::min(reason.size(), RankBlock::kReasonBytes - 1);
  std::memcpy(block.reason, reason.data(), length);
  block.reason[length] = '\0';
  block.threw = threw;
  block.state.store(static_cast<uint32_t>(state), std::memory_order_release);
  if (state == RankState::kFailed) head().failures.fetch_add(1);
  if (state != RankState::kIn) wake_everybody();
}

void ShmSegment::wake_everybody() const {
  futex_wake_all(head().epoch);
  for (int other = 0; other < world_size_; ++other) {
    rank(other).doorbell.fetch_add(1);
    futex_wake_all(rank(other).doorbell);
  }
}

std::string shm_unavailable() {
  const UniqueFd fd(::memfd_create("muster-probe", MFD_CLOEXEC));
  if (!fd) return concat("no shared memory: memfd_create: ", errno_text(errno));
  return "";
}

}  // namespace muster::distributed
