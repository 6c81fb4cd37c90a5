#include "muster/text/subword/merge.h"

#include <ctime>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::text {
namespace {

double processor_s() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Ids 0 to 3, and merges of random pairs to new ids.
MergeTable random_table(std::mt19937& random, uint32_t merges) {
  MergeTable table(merges);
  for (uint32_t i = 0; i < merges; ++i)
    table.insert(static_cast<uint32_t>(random() % (4 + i)),
                 static_cast<uint32_t>(random() % (4 + i)),
                 {i, 4 + i});
  return table;
}

std::vector<ModelToken> random_word(std::mt19937& random, size_t size) {
  std::vector<ModelToken> word;
  for (size_t i = 0; i < size; ++i) word.push_back({static_cast<uint32_t>(random() % 4), 1});
  return word;
}

/// Byte pair encoding as Sennrich et al. 2016 write it: again and again the pair of lowest rank.
std::vector<uint32_t> by_definition(const MergeTable& table, const std::vector<ModelToken>& word) {
  std::vector<uint32_t> ids;
  for (const ModelToken& token : word) ids.push_back(token.id);
  for (;;) {
    size_t best = 0;
    Merge merge;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const Merge next = table.find(ids[i], ids[i + 1]);
      if (next.rank < merge.rank) merge = next, best = i;
    }
    if (merge.rank == Merge::kNever) return ids;
    ids[best] = merge.id;
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

TEST(Merger, ShortAndLongWordsMergeByDefinition) {
  std::mt19937 random(7);
  Merger merger;
  for (int turn = 0; turn < 400; ++turn) {
    const MergeTable table = random_table(random, 60);
    std::vector<ModelToken> word = random_word(random, random() % 120);
    const std::vector<uint32_t> want = by_definition(table, word);
    const size_t bytes = word.size();
    merger.merge(table, word);
    std::vector<uint32_t> got;
    size_t sum = 0;
    for (const ModelToken& token : word) {
      got.push_back(token.id);
      sum += token.bytes;
    }
    ASSERT_EQ(got, want) << turn;
    ASSERT_EQ(sum, bytes);
  }
}

TEST(Merger, AWordOfAMegabyteTakesAboutAHundredTimesThatOfTenKilobytes) {
  std::mt19937 random(8);
  const MergeTable table = random_table(random, 200);
  Merger merger;
  const auto seconds = [&](size_t size) {
    std::vector<ModelToken> word = random_word(random, size);
    const double begin = processor_s();
    merger.merge(table, word);
    return processor_s() - begin;
  };
  seconds(10'000);
  double small = 1e9;
  for (int turn = 0; turn < 5; ++turn) small = std::min(small, seconds(10'000));
  EXPECT_LT(seconds(1'000'000), 2000 * small);  // a quadratic rule would take 10,000 times
}

}  // namespace
}  // namespace muster::text
