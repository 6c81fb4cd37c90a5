// What groups that are made from a group cost beside their backends: nothing. See Note [Groups of
// groups].
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/rank_env.h"
#include "muster/distributed/process_group.h"

#include "tests/support/error_of.h"
#include "tests/support/held_port.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using namespace std::chrono_literals;

constexpr int kCostRanks = 3;

/// Threads of this process that have this name.
int threads_named(const std::string& name) {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "comm");
    std::string line;
    if (std::getline(file, line) && line == name) ++count;
  }
  return count;
}

/// Connections on this machine to a port, which is this test's alone: their clients' ends.
int connections_to(int64_t port) {
  int count = 0;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);  // the columns' names
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::string number, local, remote, state;
      words >> number >> local >> remote >> state;
      const size_t colon = remote.rfind(':');
      const bool is_established = state == "01";
      if (is_established && colon != std::string::npos &&
          std::stoll(remote.substr(colon + 1), nullptr, 16) == port)
        ++count;
    }
  }
  return count;
}

std::vector<std::string> errors_of_ranks(const std::function<void(const RankEnv& env)>& rank_main,
                                         int64_t port) {
  std::vector<std::string> errors(kCostRanks);
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < kCostRanks; ++rank) {
    threads.emplace_back([&, rank] {
      errors[static_cast<size_t>(rank)] = test::error_of([&] {
        rank_main({.rank = rank,
                   .world_size = kCostRanks,
                   .local_rank = rank,
                   .local_world_size = kCostRanks,
                   .master_port = port});
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

// Gloo's own threads are its groups'. Those that watch them, and their connection to the store, are
// the first group's, one of each kind for each rank.
TEST(GroupCosts, PartsOverGlooAreWatchedByTheThreadsAndTheConnectionOfTheFirstGroup) {
  const test::HeldPort held_port;
  const int64_t port = held_port.number;
  int connected_before = 0;
  const auto rank_main = [&](const RankEnv& env) {
    const ProcessGroup world =
        distributed::init_process_group({.backend = "gloo", .timeout = 60s}, env);
    world.barrier();
    const auto count_threads = [] {
      return std::vector<int>{threads_named("muster-beat"), threads_named("muster-watch")};
    };
    const std::vector<int> one_each{kCostRanks, kCostRanks};
    if (env.rank == 0) {
      // They begin by themselves, and those of an earlier test may still say goodbye.
      for (int round = 0; count_threads() != one_each && round < 2000; ++round)
        std::this_thread::sleep_for(10ms);
      EXPECT_EQ(count_threads(), one_each);
      connected_before = connections_to(port);
      EXPECT_GE(connected_before, kCostRanks);
    }
    world.barrier();
    std::vector<ProcessGroup> parts;
    for (int i = 0; i < 4; ++i) {
      parts.push_back(*world.split(0));
      parts.push_back(*parts.back().split(0, -env.rank));
      for (size_t part = parts.size() - 2; part < parts.size(); ++part) {
        torch::Tensor sum = torch::ones({2});
        parts[part].all_reduce(sum);
        EXPECT_EQ(sum[0].item<float>(), kCostRanks);
        EXPECT_NE(flight_recorder(parts[part]), nullptr) << "it is watched";
      }
    }
    world.barrier();
    if (env.rank == 0) {
      EXPECT_EQ(count_threads(), one_each);
      // Eight parts on each rank. A watcher of the first group may have connected meanwhile.
      EXPECT_LE(connections_to(port), connected_before + kCostRanks);
    }
    world.barrier();
    parts.clear();
    if (env.rank == 0) {
      EXPECT_EQ(count_threads(), one_each) << "and they outlast the parts";
    }
    world.barrier();
  };
  EXPECT_THAT(errors_of_ranks(rank_main, port), ::testing::Each(test::kNoError));
}

}  // namespace
}  // namespace muster
