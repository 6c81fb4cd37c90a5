// What only a loader with threads can get wrong: errors, prefetch depth, cancelling, ending.
#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/data/loader/loader.h"

#include "tests/data/loader/loader_fixtures.h"
#include "tests/support/thread_count.h"

namespace muster::data {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class LoaderErrors : public ::testing::TestWithParam<int64_t> {};

TEST_P(LoaderErrors, ComeWhenTheirBatchIsDueAndNameTheSample) {
  Loader loader(std::make_shared<Faulty>(12, std::set<int64_t>{5}),
                {.batch_size = 3, .workers = GetParam()});
  Epoch epoch = loader.epoch(2);
  EXPECT_EQ(epoch.next()->indices[0], 0);
  try {
    epoch.next();
    FAIL() << "the bad batch came";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
    EXPECT_STREQ(error.what(), "cannot load sample 5 in batch 1 of epoch 2: rotten number 5");
    EXPECT_THROW(std::rethrow_if_nested(error), std::runtime_error);
  }
  EXPECT_EQ(epoch.state(), (LoaderState{2, 6}));
  EXPECT_EQ(epoch.next()->indices[0], 6);
  EXPECT_EQ(epoch.next()->indices[0], 9);
  EXPECT_FALSE(epoch.next());
}

TEST_P(LoaderErrors, LeaveTheLoaderAsItWas) {
  std::set<int64_t> all_but_the_last;
  for (int64_t i = 0; i < 199; ++i) all_but_the_last.insert(i);
  Loader loader(std::make_shared<Faulty>(200, all_but_the_last),
                {.batch_size = 1, .workers = GetParam()});
  for (int64_t e = 0; e < 3; ++e) {
    Epoch epoch = loader.epoch(e);
    for (int64_t i = 0; i < 199; ++i) EXPECT_THROW(epoch.next(), Error);
    EXPECT_EQ(epoch.next()->indices[0], 199);
    EXPECT_FALSE(epoch.next());
  }
}

TEST_P(LoaderErrors, KeepKindAndHintOfAMusterError) {
  class Refusing final : public Dataset {
   public:
    int64_t size() const override { return 1; }
    DataSpec spec() const override { return {}; }

   private:
    Batch load(std::span<const int64_t>, const SampleContext&) const override {
      throw usage_error({.refused = "no", .rule = "never", .value = "1", .hint = "give up"});
    }
  };
  Loader loader(std::make_shared<Refusing>(), {.workers = GetParam()});
  try {
    loader.epoch(0).next();
    FAIL() << "a batch came";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_STREQ(error.what(),
                 "cannot load sample 0 in batch 0 of epoch 0: no: never (got 1)\nhint: give up");
  }
}

TEST_P(LoaderErrors, OfAnIndexOutsideTheDatasetNameIt) {
  class TooFar final : public Sampler {
    std::vector<int64_t> indices(int64_t, int64_t) const override { return {0, 1, 99}; }
    int64_t size() const override { return 3; }
  };
  Loader loader(std::make_shared<Numbers>(5),
                {.batch_size = 3, .workers = GetParam()},
                std::make_unique<TooFar>());
  try {
    loader.epoch(0).next();
    FAIL() << "a batch came";
  } catch (const Error& error) {
    EXPECT_THAT(
        error.what(),
        HasSubstr(
            "sample 99 in batch 0 of epoch 0: no such sample in numbers: indices run from 0 to 4"));
  }
}

INSTANTIATE_TEST_SUITE_P(Workers, LoaderErrors, ::testing::Values(0, 1, 3), [](const auto& info) {
  return "With" + std::to_string(info.param);
});

TEST(LoaderPrefetch, KeepsAtMostWorkersTimesPrefetchBatches) {
  const auto data = std::make_shared<Gated>(100);
  Loader loader(data, {.batch_size = 1, .workers = 3, .prefetch_batches = 2});
  Epoch epoch = loader.epoch(0);
  for (int64_t taken = 0; taken < 50; ++taken) {
    data->await_calls(taken + 6);         // the ring is filled …
    EXPECT_EQ(data->calls(), taken + 6);  // … and no more
    epoch.next();
  }
}

TEST(LoaderPrefetch, KeepsItsDepthAfterErrors) {
  class FailingAndCounting final : public Numbers {
   public:
    using Numbers::Numbers;
    mutable std::atomic<int64_t> highest = -1;

   private:
    Batch load(std::span<const int64_t> indices, const SampleContext& context) const override {
      int64_t seen = highest;
      while (indices[0] > seen && !highest.compare_exchange_weak(seen, indices[0])) {
      }
      highest.notify_all();
      if (indices[0] < 20) throw std::runtime_error("bad");
      return Numbers::load(indices, context);
    }
  };
  const auto data = std::make_shared<FailingAndCounting>(100);
  Loader loader(data, {.batch_size = 1, .workers = 2, .prefetch_batches = 2});
  Epoch epoch = loader.epoch(0);
  for (int64_t i = 0; i < 40; ++i) {
    if (i < 20) {
      EXPECT_THROW(epoch.next(), Error);
    } else {
      EXPECT_TRUE(epoch.next());
    }
    for (int64_t seen = data->highest; seen < i + 4; seen = data->highest) data->highest.wait(seen);
  }
}

TEST(LoaderPrefetch, MakesTheNextEpochsBatchesWhileAStaleOneIsStillBeingMade) {
  const auto data = std::make_shared<Gated>(100);
  Loader loader(data, {.batch_size = 10, .workers = 2, .prefetch_batches = 1});
  data->set_open(false);
  Epoch old = loader.epoch(0);
  data->await_calls(2);  // both workers are held in epoch 0
  Epoch epoch = loader.epoch(1);
  data->set_open(true);
  EXPECT_THAT(drain(epoch), SizeIs(10));
  EXPECT_EQ(data->calls(), 2 + 10);  // nothing more of epoch 0 was begun
}

TEST(LoaderPrefetch, StopsWhenTheEpochIsLeft) {
  const auto data = std::make_shared<Gated>(1000);
  Loader loader(data, {.batch_size = 1, .workers = 2, .prefetch_batches = 1});
  data->set_open(false);
  {
    Epoch epoch = loader.epoch(0);
    data->await_calls(2);
  }
  data->set_open(true);
  EXPECT_THAT(drain(loader.epoch(1)), SizeIs(1000));
  EXPECT_EQ(data->calls(), 2 + 1000);
}

TEST(LoaderWorkerThreads, EndWithTheLoaderWhereverTheyAre) {
  const auto use = [](const std::shared_ptr<Gated>& data, int batches) {
    Loader loader(data, {.batch_size = 1, .workers = 3});
    Epoch epoch = loader.epoch(0);
    for (int i = 0; i < batches; ++i) EXPECT_EQ(epoch.next()->indices.at(0), i);
  };
  use(std::make_shared<Gated>(50), 1);  // LibTorch's own threads stay
  const auto before = test::thread_count();
  for (int round = 0; round < 100; ++round) {
    const auto data = std::make_shared<Gated>(50);
    use(data, round % 7);
    EXPECT_EQ(data->loading(), 0);
  }
  test::expect_at_most_threads(before);
}

TEST(LoaderWorkerThreads, AreNotNeededForALoaderThatIsNeverUsed) {
  Loader loader(std::make_shared<Numbers>(50), {.workers = 1'000'000});
  EXPECT_EQ(loader.batches_per_epoch(), 50);
}

TEST(LoaderWorkerThreads, HaveOneIntraopThreadAndLeaveOtherThreadsTheirs) {
  at::set_num_threads(3);
  const auto data = std::make_shared<Gated>(20);
  Loader loader(data, {.batch_size = 1, .workers = 2});
  drain(loader.epoch(0));
  EXPECT_THAT(data->intraop_threads(), Each(1));
  EXPECT_EQ(at::get_num_threads(), 3);
  int later = 0;
  std::thread([&] { later = at::get_num_threads(); }).join();
  EXPECT_EQ(later, 3);
}

TEST(LoaderWorkerThreads, GiveTheSameBatchesForEveryNumberOfThem) {
  Lists want;
  for (const int64_t workers : {0, 1, 2, 3, 8}) {
    Loader loader(std::make_shared<Numbers>(997),
                  {.batch_size = 5, .workers = workers, .prefetch_batches = 3});
    const Lists got = drain(loader.epoch(0));
    if (workers == 0) want = got;
    EXPECT_EQ(got, want) << workers << " workers";
  }
}

}  // namespace
}  // namespace muster::data
