#include <algorithm>
#include <map>
#include <memory>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/data/samplers/distributed.h"
#include "muster/data/samplers/exact_cover.h"
#include "muster/data/samplers/random.h"
#include "muster/data/samplers/sequential.h"

#include "tests/support/error_of.h"

namespace muster::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Indices = std::vector<int64_t>;
using test::refusal_of;

DistributedSampler make(int64_t samples, int64_t world, int64_t rank, bool drop_last = false) {
  return DistributedSampler(samples,
                            {.world_size = world, .rank = rank, .seed = 3, .drop_last = drop_last});
}

/// The order over all ranks: place k is place k/world of rank k%world.
Indices interleaved(
    int64_t samples, int64_t world, int64_t epoch, int64_t consumed = 0, bool drop_last = false) {
  std::vector<Indices> ranks;
  for (int64_t rank = 0; rank < world; ++rank) {
    ranks.push_back(make(samples, world, rank, drop_last).indices(epoch, consumed));
  }
  Indices out;
  for (size_t round = 0; round < ranks[0].size(); ++round) {
    for (const Indices& rank : ranks) out.push_back(rank.at(round));
  }
  return out;
}

std::map<int64_t, int> counts(const Indices& indices) {
  std::map<int64_t, int> out;
  for (const int64_t index : indices) ++out[index];
  return out;
}

TEST(DistributedSampler, ShowsEverySampleOnceOrTwicePaddingWithFewerThanTheWorldSize) {
  for (const int64_t samples : {1, 2, 7, 30, 101}) {
    for (int64_t world = 1; world <= samples; ++world) {
      const auto seen = counts(interleaved(samples, world, 0));
      EXPECT_THAT(seen, SizeIs(samples));
      const auto repeats =
          std::ranges::count_if(seen, [](const auto& it) { return it.second == 2; });
      EXPECT_LT(repeats, world);
      EXPECT_TRUE(std::ranges::all_of(seen, [](const auto& it) { return it.second <= 2; }));
    }
  }
}

TEST(DistributedSampler, DropsFewerThanTheWorldSizeAndRepeatsNothing) {
  for (const int64_t samples : {0, 1, 7, 30, 101}) {
    for (int64_t world = 1; world <= samples + 2; ++world) {
      const auto seen = counts(interleaved(samples, world, 0, 0, /*drop_last=*/true));
      EXPECT_GT(static_cast<int64_t>(seen.size()), samples - world);
      EXPECT_EQ(static_cast<int64_t>(seen.size()) % world, 0);
      for (const auto& [index, count] : seen) EXPECT_EQ(count, 1);
    }
  }
}

TEST(DistributedSampler, SharesTheOrderOfTheRandomSamplerOfOneRank) {
  for (const int64_t world : {1, 2, 4}) {
    EXPECT_EQ(interleaved(100, world, 5), RandomSampler(100, {.seed = 3}).indices(5));
  }
}

TEST(DistributedSampler, ChangesTheOrderWithEpochAndSeed) {
  const Indices first = make(100, 2, 0).indices(0);
  EXPECT_NE(first, make(100, 2, 0).indices(1));
  EXPECT_EQ(first, make(100, 2, 0).indices(0));
  EXPECT_NE(first, DistributedSampler(100, {.world_size = 2, .seed = 4}).indices(0));
}

TEST(DistributedSampler, GoesOnWhereTheSameWorldSizeStopped) {
  for (const bool drop_last : {false, true}) {
    for (const int64_t samples : {1, 10, 11, 29}) {
      const Indices whole = make(samples, 4, 2, drop_last).indices(1);
      for (size_t done = 0; done <= whole.size(); ++done) {
        const Indices rest =
            make(samples, 4, 2, drop_last).indices(1, static_cast<int64_t>(done) * 4);
        EXPECT_EQ(rest, Indices(whole.begin() + static_cast<ptrdiff_t>(done), whole.end()))
            << samples << " after " << done;
      }
    }
  }
}

TEST(DistributedSampler, LosesAndRepeatsNothingWhenTheWorldSizeChangesWithinAnEpoch) {
  // 96 samples: 2 ranks consume 32, 4 ranks the next 40, one rank the rest.
  Indices seen = interleaved(96, 2, 7);
  const Indices want = seen;
  seen.resize(32);
  const Indices by_four = interleaved(96, 4, 7, 32);
  seen.insert(seen.end(), by_four.begin(), by_four.begin() + 40);
  const Indices by_one = interleaved(96, 1, 7, 72);
  seen.insert(seen.end(), by_one.begin(), by_one.end());
  EXPECT_EQ(seen, want);
}

TEST(DistributedSampler, GivesMoreRanksThanSamplesRepeatedSamples) {
  for (int64_t rank = 0; rank < 7; ++rank) EXPECT_THAT(make(2, 7, rank).indices(0), SizeIs(1));
  EXPECT_THAT(make(2, 7, 0, /*drop_last=*/true).indices(0), IsEmpty());
}

TEST(DistributedSampler, GivesNothingOfAnEmptyDataset) {
  EXPECT_THAT(make(0, 3, 1).indices(0), IsEmpty());
  EXPECT_EQ(make(0, 3, 1).size(), 0);
}

TEST(DistributedSampler, RefusesRanksOutsideTheWorld) {
  EXPECT_THAT(refusal_of([] { make(10, 0, 0); }), HasSubstr("world size is at least 1 (got 0)"));
  EXPECT_THAT(refusal_of([] { make(10, 2, 2); }), HasSubstr("ranks run from 0 to 1 (got rank 2)"));
  EXPECT_THAT(refusal_of([] { make(10, 2, -1); }), HasSubstr("got rank -1"));
  EXPECT_THAT(refusal_of([] { make(-1, 2, 0); }), HasSubstr("got -1"));
}

TEST(ExactCoverSampler, ShowsEverySampleExactlyOnceOverAllRanks) {
  for (const int64_t samples : {0, 1, 5, 8, 33}) {
    for (const int64_t world : {1, 2, 3, 7, 40}) {
      Indices all;
      for (int64_t rank = 0; rank < world; ++rank) {
        const ExactCoverSampler sampler(samples, {.world_size = world, .rank = rank});
        const Indices mine = sampler.indices(0);
        EXPECT_EQ(static_cast<int64_t>(mine.size()), sampler.size());
        all.insert(all.end(), mine.begin(), mine.end());
      }
      std::ranges::sort(all);
      Indices want(static_cast<size_t>(samples));
      std::iota(want.begin(), want.end(), 0);
      EXPECT_EQ(all, want) << samples << " over " << world;
    }
  }
}

TEST(ExactCoverSampler, RefusesRanksOutsideTheWorld) {
  EXPECT_THAT(refusal_of([] { ExactCoverSampler(10, {.world_size = 2, .rank = 2}); }),
              HasSubstr("got rank 2"));
}

TEST(ExactCoverSampler, ShuffledHasTheOrderOfDistributedSamplerWithoutItsPadding) {
  for (const int64_t rank : {0, 1, 2}) {
    const ExactCoverSampler exact(10, {.world_size = 3, .rank = rank, .seed = 3, .shuffle = true});
    Indices padded = make(10, 3, rank).indices(2);
    padded.resize(static_cast<size_t>(exact.size()));
    EXPECT_EQ(exact.indices(2), padded) << "rank " << rank;
  }
}

TEST(ExactCoverSampler, LosesAndRepeatsNothingWhenTheWorldSizeChangesInAnEpoch) {
  for (const std::pair<int64_t, int64_t>& worlds :
       {std::pair<int64_t, int64_t>{2, 1}, {2, 4}, {4, 3}, {1, 2}}) {
    const int64_t consumed = 12;  // three global batches of 4
    Indices seen;
    for (int64_t rank = 0; rank < worlds.first; ++rank) {
      Indices mine = ExactCoverSampler(
                         31, {.world_size = worlds.first, .rank = rank, .seed = 1, .shuffle = true})
                         .indices(5);
      seen.insert(seen.end(), mine.begin(), mine.begin() + consumed / worlds.first);
    }
    for (int64_t rank = 0; rank < worlds.second; ++rank) {
      const Indices rest =
          ExactCoverSampler(31,
                            {.world_size = worlds.second, .rank = rank, .seed = 1, .shuffle = true})
              .indices(5, consumed);
      seen.insert(seen.end(), rest.begin(), rest.end());
    }
    std::ranges::sort(seen);
    Indices want(31);
    std::iota(want.begin(), want.end(), 0);
    EXPECT_EQ(seen, want) << worlds.first << " -> " << worlds.second;
  }
}

TEST(SequentialSampler, CountsFromThePosition) {
  EXPECT_THAT(SequentialSampler(4).indices(9), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(SequentialSampler(4).indices(0, 3), ElementsAre(3));
  EXPECT_THAT(SequentialSampler(4).indices(0, 9), IsEmpty());
}

TEST(RandomSampler, RefusesNumbersOfSamplesThatItCannotDraw) {
  EXPECT_THAT(refusal_of([] { RandomSampler(5, {.num_samples = 0}); }),
              HasSubstr("num_samples is at least 1"));
  EXPECT_THAT(refusal_of([] { RandomSampler(0, {.num_samples = 3}); }), HasSubstr("not empty"));
  EXPECT_THAT(RandomSampler(0).indices(0), IsEmpty());
}

TEST(Samplers, RefuseNegativePositions) {
  std::vector<std::unique_ptr<Sampler>> samplers;
  samplers.push_back(std::make_unique<SequentialSampler>(4));
  samplers.push_back(std::make_unique<RandomSampler>(4));
  samplers.push_back(std::make_unique<DistributedSampler>(4, DistributedSamplerOptions{}));
  samplers.push_back(std::make_unique<ExactCoverSampler>(4));
  for (const auto& sampler : samplers) {
    EXPECT_THAT(refusal_of([&] { sampler->indices(-1); }),
                HasSubstr("epochs count from 0 (got -1)"));
    EXPECT_THAT(refusal_of([&] { sampler->indices(0, -2); }), HasSubstr("got -2"));
    EXPECT_THAT(sampler->indices(0, 1000), IsEmpty());
  }
}

}  // namespace
}  // namespace muster::data
