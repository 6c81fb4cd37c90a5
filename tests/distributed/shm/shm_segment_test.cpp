// The memory that shm ranks share: how they find it, that it leaves no name, how large it is.
#include "muster/distributed/shm/shm_segment.h"

#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <unistd.h>

#include "muster/distributed/meet/backend.h"
#include "muster/distributed/meet/host.h"

#include "tests/support/error_of.h"

namespace muster::distributed {
namespace {

using Segments = std::vector<std::shared_ptr<ShmSegment>>;

/// Two mappings of one segment, made by two threads that know each other by a store only.
Segments met(bool anonymous) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  Segments segments(2);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back(
        [&, rank] { segments[rank] = ShmSegment::meet(*store, rank, 2, "host", anonymous); });
  }
  for (auto& rank : ranks) rank.join();
  return segments;
}

std::vector<std::string> files_of_ours() {
  std::vector<std::string> found;
  const std::string ours = "muster-" + std::to_string(::getpid()) + "-";
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(ours)) found.push_back(name);
  }
  return found;
}

class ShmMeeting : public ::testing::TestWithParam<bool> {};

TEST_P(ShmMeeting, GivesBothRanksTheSameBytesAndLeavesNoFile) {
  const auto segments = met(GetParam());
  ASSERT_NE(segments[0]->slot(0, 0), segments[1]->slot(0, 0));  // two mappings
  segments[0]->slot(0, 1)[99] = std::byte{42};
  EXPECT_EQ(segments[1]->slot(0, 1)[99], std::byte{42});
  EXPECT_EQ(segments[0]->rank(1).pid.load(), ::getpid());
  EXPECT_THAT(files_of_ours(), ::testing::IsEmpty());
}

TEST_P(ShmMeeting, LeavesNoFileEvenIfAPeerDoesNotCome) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  store->setTimeout(std::chrono::milliseconds(100));
  EXPECT_NE(test::error_of([&] { ShmSegment::meet(*store, 0, 2, "host", GetParam()); }),
            test::kNoError);
  EXPECT_THAT(files_of_ours(), ::testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Ways, ShmMeeting, ::testing::Bool(), [](const auto& info) {
  return info.param ? "anonymous" : "dev_shm";
});

TEST(ShmSegment, IsAsLargeAsStated) {
  struct Stated {
    int ranks;
    double sparse, whole;  // MiB
  };
  constexpr double kMib = 1 << 20;
  for (const auto& [ranks, sparse, whole] : {Stated{2, 18.1, 3.1},
                                             {4, 20.1, 8.1},
                                             {8, 24.1, 24.1},
                                             {16, 32.2, 32.2},
                                             {64, 32.9, 32.9}}) {
    EXPECT_LT(double(ShmSegment::local(ranks)->total_bytes()), sparse * kMib) << ranks;
    EXPECT_LT(double(ShmSegment::local(ranks, false)->total_bytes()), whole * kMib) << ranks;
  }
}

TEST(ShmSegment, PartsOfDifferentRanksDoNotOverlap) {
  const auto segment = ShmSegment::local(3);
  std::vector<std::pair<const std::byte*, size_t>> parts;
  for (int rank = 0; rank < 3; ++rank) {
    parts.emplace_back(reinterpret_cast<const std::byte*>(&segment->rank(rank)), sizeof(RankBlock));
    for (const unsigned parity : {0U, 1U}) {
      parts.emplace_back(reinterpret_cast<const std::byte*>(segment->table(rank, parity)), 48);
      parts.emplace_back(segment->slot(rank, parity), segment->slot_bytes());
    }
    for (int to = 0; to < 3; ++to)
      parts.emplace_back(segment->channel(rank, to), segment->channel_bytes());
  }
  std::sort(parts.begin(), parts.end());
  for (size_t i = 1; i < parts.size(); ++i)
    EXPECT_LE(parts[i - 1].first + parts[i - 1].second, parts[i].first);
  const auto* base = reinterpret_cast<const std::byte*>(&segment->head());
  EXPECT_LE(parts.back().first + parts.back().second, base + segment->total_bytes());
}

TEST(PeerProcess, IsSeenDeadWhileStillAZombie) {
  const pid_t child = ::fork();
  if (child == 0) {
    while (true) ::pause();
  }
  const PeerProcess peer(child);
  EXPECT_TRUE(peer.alive());
  ::kill(child, SIGKILL);
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  EXPECT_FALSE(peer.alive());
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(peer.alive());
  EXPECT_TRUE(PeerProcess().alive());
}

}  // namespace
}  // namespace muster::distributed
