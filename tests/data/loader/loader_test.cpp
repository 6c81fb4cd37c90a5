// Order, sizes, resuming, and the ends that an epoch can have.
#include "muster/data/loader/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/data/samplers/distributed.h"
#include "muster/data/samplers/random.h"

#include "tests/data/loader/loader_fixtures.h"
#include "tests/support/error_of.h"

namespace muster::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class LoaderWorkers : public ::testing::TestWithParam<int64_t> {
 protected:
  LoaderOptions options(int64_t batch_size, bool drop_last = false) const {
    return {.batch_size = batch_size, .workers = GetParam(), .drop_last = drop_last};
  }

  static std::unique_ptr<Sampler> shuffled(int64_t samples) {
    return std::make_unique<RandomSampler>(samples, RandomSamplerOptions{.seed = 9});
  }
};

TEST_P(LoaderWorkers, GivesTheSamplersOrderCutIntoBatches) {
  Loader loader(std::make_shared<Numbers>(10), options(4), shuffled(10));
  for (const int64_t epoch : {0, 1, 7}) {
    const std::vector<int64_t> order = shuffled(10)->indices(epoch);
    const auto at = order.begin();
    EXPECT_THAT(
        drain(loader.epoch(epoch)),
        ElementsAre(
            std::vector(at, at + 4), std::vector(at + 4, at + 8), std::vector(at + 8, at + 10)));
  }
}

TEST_P(LoaderWorkers, LeavesOutTheSmallLastBatchIfAsked) {
  Loader loader(std::make_shared<Numbers>(10), options(4, /*drop_last=*/true));
  EXPECT_THAT(drain(loader.epoch(0)),
              ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5, 6, 7)));
  EXPECT_EQ(loader.batches_per_epoch(), 2);
}

TEST_P(LoaderWorkers, CountsItsBatches) {
  for (const int64_t samples : {0, 1, 4, 5, 8}) {
    Loader loader(std::make_shared<Numbers>(samples), options(4));
    EXPECT_EQ(loader.batches_per_epoch(), (samples + 3) / 4);
    EXPECT_EQ(loader.epoch(0).batches(), (samples + 3) / 4);
    EXPECT_THAT(drain(loader.epoch(0)), SizeIs((samples + 3) / 4));
  }
}

TEST_P(LoaderWorkers, EndsAndStaysAtTheEnd) {
  Loader loader(std::make_shared<Numbers>(3), options(2));
  Epoch epoch = loader.epoch(0);
  EXPECT_TRUE(epoch.next());
  EXPECT_TRUE(epoch.next());
  EXPECT_FALSE(epoch.next());
  EXPECT_FALSE(epoch.next());
}

TEST_P(LoaderWorkers, ResumesAnywhereWithExactlyTheBatchesThatAreLeft) {
  Loader loader(std::make_shared<Numbers>(23), options(4), shuffled(23));
  const Lists whole = drain(loader.epoch(2));
  for (const int64_t other_workers : {0, 1, 3}) {
    for (size_t done = 0; done < whole.size(); ++done) {
      Epoch epoch = loader.epoch(2);
      for (size_t i = 0; i < done; ++i) epoch.next();
      const LoaderState state = epoch.state();
      EXPECT_EQ(state, (LoaderState{2, static_cast<int64_t>(done) * 4}));
      Loader resumed(
          std::make_shared<Numbers>(23), {.batch_size = 4, .workers = other_workers}, shuffled(23));
      EXPECT_EQ(drain(resumed.epoch(state)),
                Lists(whole.begin() + static_cast<ptrdiff_t>(done), whole.end()));
    }
  }
}

TEST_P(LoaderWorkers, SaysAfterTheLastBatchThatTheNextEpochComes) {
  Loader loader(std::make_shared<Numbers>(6), options(4));
  Epoch epoch = loader.epoch(3);
  drain(epoch);
  EXPECT_EQ(epoch.state(), (LoaderState{4, 0}));
}

TEST_P(LoaderWorkers, CountsTheSamplesOfAllRanksInItsState) {
  const auto make = [&](int64_t rank, int64_t world, int64_t batch_size) {
    auto sampler = std::make_unique<DistributedSampler>(
        64, DistributedSamplerOptions{.world_size = world, .rank = rank});
    return Loader(std::make_shared<Numbers>(64), options(batch_size), std::move(sampler));
  };
  Loader one_of_two = make(1, 2, 8);
  Epoch epoch = one_of_two.epoch(0);
  epoch.next();
  EXPECT_EQ(epoch.state(), (LoaderState{0, 16}));
  // A lone rank goes on with the global batch that the two ranks would have shared.
  Loader alone = make(0, 1, 16);
  std::vector<int64_t> mine;
  const Batch next = *alone.epoch(epoch.state()).next();
  for (size_t i = 1; i < 16; i += 2) mine.push_back(next.indices[i]);
  EXPECT_EQ(epoch.next()->indices, mine);
}

TEST_P(LoaderWorkers, StartsTheNextEpochAfterABreak) {
  Loader loader(std::make_shared<Numbers>(1000), options(3), shuffled(1000));
  const Lists whole = drain(loader.epoch(1));
  for (int round = 0; round < 50; ++round) {
    for (const Batch& batch : loader.epoch(0)) {
      if (batch.indices[0] % 3 == 0) break;
    }
    Epoch epoch = loader.epoch(1);
    EXPECT_EQ(epoch.next()->indices, whole[0]);
    EXPECT_EQ(epoch.next()->indices, whole[1]);
  }
  EXPECT_EQ(drain(loader.epoch(1)), whole);
}

TEST_P(LoaderWorkers, RefusesBatchesOfAnEpochThatALaterOneEnded) {
  Loader loader(std::make_shared<Numbers>(10), options(2));
  Epoch first = loader.epoch(0);
  first.next();
  Epoch second = loader.epoch(1);
  try {
    first.next();
    FAIL() << "the old epoch went on";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("batch of epoch 0: a loader has one epoch at a time"));
  }
  EXPECT_THAT(drain(second), SizeIs(5));
}

TEST_P(LoaderWorkers, KeepsTheNewEpochWhenTheOldObjectDies) {
  Loader loader(std::make_shared<Numbers>(10), options(2));
  Epoch epoch = loader.epoch(0);
  epoch.next();
  epoch = loader.epoch(1);
  EXPECT_THAT(drain(epoch), SizeIs(5));
}

TEST_P(LoaderWorkers, LetsAnEpochOutliveTheLoader) {
  auto loader = std::make_unique<Loader>(std::make_shared<Numbers>(10), options(2));
  Epoch epoch = loader->epoch(0);
  epoch.next();
  loader.reset();
  EXPECT_EQ(epoch.state(), (LoaderState{0, 2}));
  EXPECT_THROW(epoch.next(), Error);
}

TEST_P(LoaderWorkers, HandsSeedAndEpochToTheDataset) {
  const auto data = std::make_shared<Gated>(4);
  Loader loader(data, {.batch_size = 2, .workers = GetParam(), .seed = 77});
  drain(loader.epoch(5));
  const auto contexts = data->contexts();
  ASSERT_THAT(contexts, SizeIs(2));
  for (const SampleContext& context : contexts) {
    EXPECT_EQ(context.seed, 77U);
    EXPECT_EQ(context.epoch, 5);
  }
}

TEST_P(LoaderWorkers, CountsBatchesAndTime) {
  Loader loader(std::make_shared<Numbers>(100), options(1));
  Epoch epoch = loader.epoch(0);
  EXPECT_EQ(epoch.stats().waiting_share(), 0);
  drain(epoch);
  const LoaderStats stats = epoch.stats();
  EXPECT_EQ(stats.batches, 100);
  EXPECT_GT(stats.loading_s, 0);
  EXPECT_GE(stats.waited_s, stats.first_wait_s);
  EXPECT_GE(stats.elapsed_s, stats.waited_s);
}

INSTANTIATE_TEST_SUITE_P(Workers, LoaderWorkers, ::testing::Values(0, 1, 3), [](const auto& info) {
  return "With" + std::to_string(info.param);
});

TEST(LoaderStats, CallsALoaderBoundThatWaitsForMoreThanATenthAfterTheFirstBatch) {
  EXPECT_FALSE((LoaderStats{.elapsed_s = 11, .waited_s = 2, .first_wait_s = 1}.loader_bound()));
  EXPECT_TRUE((LoaderStats{.elapsed_s = 11, .waited_s = 2.2, .first_wait_s = 1}.loader_bound()));
  EXPECT_FALSE((LoaderStats{.elapsed_s = 1, .waited_s = 1, .first_wait_s = 1}.loader_bound()));
}

TEST(Loader, RefusesOptionsThatMakeNoSense) {
  const auto refusal = [](LoaderOptions options) {
    return test::refusal_of([&] { Loader(std::make_shared<Numbers>(1), options); });
  };
  EXPECT_THAT(refusal({.batch_size = 0}), HasSubstr("the batch size is at least 1 (got 0)"));
  EXPECT_THAT(refusal({.workers = -1}), HasSubstr("the number of workers is at least 0 (got -1)"));
  EXPECT_THAT(refusal({.prefetch_batches = 0}), HasSubstr("prefetch is at least 1 (got 0)"));
  EXPECT_THROW(Loader(nullptr, {}), Error);
}

TEST(Loader, RefusesPositionsBelowZero) {
  Loader loader(std::make_shared<Numbers>(1), {});
  EXPECT_THROW(loader.epoch(-1), Error);
  EXPECT_THROW(loader.epoch(0, -1), Error);
  EXPECT_THAT(drain(loader.epoch(0, 1)), IsEmpty());
}

TEST(DefaultWorkers, LeaveACorePerRankToTheTrainerAndAreFourAtMost) {
  EXPECT_EQ(default_workers(1, 1), 0);
  EXPECT_EQ(default_workers(2, 1), 1);
  EXPECT_EQ(default_workers(2, 2), 0);
  EXPECT_EQ(default_workers(8, 2), 3);
  EXPECT_EQ(default_workers(8, 3), 1);
  EXPECT_EQ(default_workers(2, 4), 0);
  EXPECT_EQ(default_workers(64, 1), 4);
  EXPECT_THROW(default_workers(0, 1), Error);
  EXPECT_THROW(default_workers(1, 0), Error);
}

}  // namespace
}  // namespace muster::data
