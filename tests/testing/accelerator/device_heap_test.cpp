// Where blocks lie: against a map of single bytes.
#include "muster/testing/accelerator/device_heap.h"

#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using testing::DeviceHeap;
using ::testing::ElementsAre;
using ::testing::Pair;

TEST(DeviceHeap, NeighboursThatAreFreedBecomeOneHole) {
  DeviceHeap heap(100);
  EXPECT_EQ(heap.allocate(10), 0);
  EXPECT_EQ(heap.allocate(20), 10);
  EXPECT_EQ(heap.allocate(30), 30);
  heap.give_back(0, 10);
  heap.give_back(30, 30);
  EXPECT_THAT(heap.holes(), ElementsAre(Pair(0, 10), Pair(30, 70)));
  heap.give_back(10, 20);
  EXPECT_THAT(heap.holes(), ElementsAre(Pair(0, 100)));
}

TEST(DeviceHeap, TheSmallestHoleThatFitsIsTaken) {
  DeviceHeap heap(100);
  for (const size_t bytes : {20, 10, 10, 10}) heap.allocate(bytes);
  heap.give_back(0, 20);
  heap.give_back(30, 10);
  EXPECT_EQ(heap.allocate(8), 30);
  EXPECT_EQ(heap.allocate(60), std::nullopt);
}

TEST(DeviceHeap, NothingIsTakenBeyondAnEndThatIsGiven) {
  DeviceHeap heap(100);
  for (const size_t bytes : {10, 10, 10}) heap.allocate(bytes);
  heap.give_back(10, 10);
  EXPECT_EQ(heap.largest(30), 10);
  EXPECT_EQ(heap.largest(45), 15);
  EXPECT_EQ(heap.largest(10), 0);
  EXPECT_EQ(heap.allocate(15, 40), std::nullopt);
  EXPECT_EQ(heap.allocate(15, 45), 30);
  EXPECT_EQ(heap.allocate(10, 45), 10) << "the smaller hole";
}

TEST(DeviceHeap, NoByteIsGivenTwiceAndAllComeBack) {
  std::mt19937 random(7);
  DeviceHeap heap(512);
  std::vector<bool> taken(512);
  std::vector<std::pair<size_t, size_t>> blocks;
  for (int step = 0; step < 20'000; ++step) {
    if (random() % 2 == 0 || blocks.empty()) {
      const size_t bytes = 1 + random() % 40;
      const auto offset = heap.allocate(bytes);
      if (!offset) continue;
      for (size_t i = *offset; i < *offset + bytes; ++i) {
        ASSERT_FALSE(taken.at(i));
        taken[i] = true;
      }
      blocks.emplace_back(*offset, bytes);
    } else {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      const auto [offset, bytes] = blocks.back();
      blocks.pop_back();
      heap.give_back(offset, bytes);
      for (size_t i = offset; i < offset + bytes; ++i) taken[i] = false;
    }
  }
  for (const auto& [offset, bytes] : blocks) heap.give_back(offset, bytes);
  EXPECT_THAT(heap.holes(), ElementsAre(Pair(0, 512)));
}

}  // namespace
}  // namespace muster
