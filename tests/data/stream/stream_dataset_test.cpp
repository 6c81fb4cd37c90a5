// Streams: shards that are read from their start, by ranks and workers together.
#include "muster/data/stream/stream_dataset.h"

#include <atomic>
#include <numeric>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/data/loader/loader.h"
#include "muster/data/stream/stream_sampler.h"
#include "muster/data/transform/transformed.h"

#include "tests/support/error_of.h"

namespace muster::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// What was read of shards.
struct Reads {
  std::atomic<int64_t> samples{0}, skipped{0}, opened{0};
};

/// Sample i is the number i; shards have these sizes.
class Numbers final : public StreamDataset {
 public:
  Numbers(const std::vector<int64_t>& sizes,
          const StreamOptions& options,
          std::shared_ptr<Reads> reads = std::make_shared<Reads>(),
          int64_t bad = -1)
      : StreamDataset(sizes, options), sizes_(sizes), reads_(std::move(reads)), bad_(bad) {}

  DataSpec spec() const override { return {.name = "numbers", .dtype = at::kLong}; }

 private:
  class Reader final : public ShardReader {
   public:
    Reader(const Numbers& owner, int64_t first) : owner_(owner), next_(first) {}
    Sample next() override {
      if (next_ == owner_.bad_) throw std::runtime_error("a torn row");
      ++owner_.reads_->samples;
      return {.tensors = {{"data", torch::tensor(next_++)}}};
    }
    void skip(int64_t samples) override {
      owner_.reads_->skipped += samples;
      next_ += samples;
    }

   private:
    const Numbers& owner_;
    int64_t next_;
  };

  std::unique_ptr<ShardReader> open(int64_t shard) const override {
    ++reads_->opened;
    return std::make_unique<Reader>(
        *this, std::accumulate(sizes_.begin(), sizes_.begin() + shard, int64_t{0}));
  }

  std::vector<int64_t> sizes_;
  std::shared_ptr<Reads> reads_;
  int64_t bad_;
};

/// The numbers in the order in which a rank's loader gives them, from a position on.
std::vector<int64_t> read_epoch(const std::shared_ptr<const Dataset>& dataset,
                                const EpochShare& share,
                                int64_t workers,
                                int64_t epoch = 0,
                                int64_t from = 0) {
  Loader loader(dataset, {.batch_size = 3, .workers = workers}, dataset->own_sampler(share));
  std::vector<int64_t> all;
  for (const Batch& batch : loader.epoch(epoch, from)) {
    const at::Tensor& data = batch["data"];
    for (int64_t row = 0; row < batch.size(); ++row) {
      all.push_back(data[row].item<int64_t>());
      EXPECT_EQ(all.back(), batch.indices[static_cast<size_t>(row)]);
    }
  }
  return all;
}

/// The ranks' shares, put together as they take turns.
std::vector<int64_t> in_turns(const std::vector<std::vector<int64_t>>& shares) {
  std::vector<int64_t> all;
  for (size_t at = 0; at < shares[0].size(); ++at) {
    for (const auto& share : shares) {
      if (at < share.size()) all.push_back(share[at]);
    }
  }
  return all;
}

TEST(Stream, EveryOrderIsTheSameForAnyRanksAndWorkersAndFromAnyPosition) {
  const std::vector<std::vector<int64_t>> kinds{
      {10, 10, 10, 10, 10, 10, 10, 10}, {1, 0, 17, 5, 0, 30, 2, 8, 3}, {7}, {}};
  for (const auto& sizes : kinds) {
    const int64_t samples = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    for (const StreamOptions& options :
         {StreamOptions{4, 5}, StreamOptions{1, 1}, StreamOptions{16, 64}}) {
      const auto dataset = std::make_shared<Numbers>(sizes, options);
      const std::vector<int64_t> whole = read_epoch(dataset, {.seed = 3}, 0, /*epoch=*/2);
      const std::set<int64_t> different(whole.begin(), whole.end());
      EXPECT_EQ(static_cast<int64_t>(whole.size()), samples);
      EXPECT_EQ(static_cast<int64_t>(different.size()), samples);
      for (const int64_t ranks : {1, 2, 3}) {
        for (const int64_t from : {int64_t{0}, int64_t{7}, samples}) {
          if (from > samples) continue;
          std::vector<std::vector<int64_t>> shares;
          for (int64_t rank = 0; rank < ranks; ++rank)
            shares.push_back(
                read_epoch(dataset, {.world_size = ranks, .rank = rank, .seed = 3}, rank, 2, from));
          EXPECT_EQ(in_turns(shares), std::vector<int64_t>(whole.begin() + from, whole.end()))
              << ranks << " ranks from " << from;
        }
      }
    }
  }
}

TEST(Stream, OrdersDifferByEpochAndSeedAndNotWithoutShuffling) {
  const auto dataset =
      std::make_shared<Numbers>(std::vector<int64_t>{20, 20, 20}, StreamOptions{2, 8});
  const auto order = [&](uint64_t seed, int64_t epoch, bool shuffle) {
    return read_epoch(dataset, {.seed = seed, .shuffle = shuffle}, 0, epoch);
  };
  EXPECT_NE(order(1, 0, true), order(1, 1, true));
  EXPECT_NE(order(1, 0, true), order(2, 0, true));
  EXPECT_EQ(order(1, 0, false), order(2, 5, false));
  std::vector<int64_t> first = order(1, 0, false);
  first.resize(4);
  EXPECT_THAT(first, ElementsAre(0, 20, 1, 21));  // of both lanes in turn
}

TEST(Stream, RanksReadTheirOwnShardsAndEverySampleOnce) {
  const std::vector<int64_t> sizes(16, 600);
  for (const int64_t rank : {0, 1}) {
    const auto reads = std::make_shared<Reads>();
    const auto dataset = std::make_shared<Numbers>(sizes, StreamOptions{4, 50}, reads);
    read_epoch(dataset, {.world_size = 2, .rank = rank, .seed = 1}, 2);
    EXPECT_EQ(reads->samples + reads->skipped, 16 * 600 / 2);
    EXPECT_EQ(reads->opened, 8);
  }
}

TEST(Stream, GoesOnBySkippingWhatWasReadBefore) {
  const auto reads = std::make_shared<Reads>();
  const auto dataset =
      std::make_shared<Numbers>(std::vector<int64_t>{5000}, StreamOptions{1, 10}, reads);
  const std::vector<int64_t> rest = read_epoch(dataset, {.seed = 1}, 0, 0, 4990);
  EXPECT_EQ(rest.size(), 10U);
  EXPECT_EQ(reads->opened, 1);
  EXPECT_GT(reads->skipped, 4000);
  EXPECT_LT(reads->samples, 600);
}

TEST(Stream, AnySampleMayBeAskedForInAnyOrder) {
  const auto dataset = std::make_shared<Numbers>(std::vector<int64_t>{900, 3, 700},
                                                 StreamOptions{.lanes = 1, .shuffle_window = 1});
  const std::vector<int64_t> wanted{1602, 0, 899, 901, 5, 5, 900, 1, 903};
  const Batch batch = dataset->get(wanted);
  EXPECT_TRUE(batch["data"].equal(torch::tensor(wanted)));
  EXPECT_EQ(batch.indices, wanted);
  EXPECT_EQ(dataset->size(), 1603);
}

TEST(Stream, ASampleThatCannotBeReadIsNamedAndTheOthersStillCome) {
  const auto dataset = std::make_shared<Numbers>(
      std::vector<int64_t>{8, 8}, StreamOptions{2, 1}, std::make_shared<Reads>(), /*bad=*/5);
  const std::vector<int64_t> before{4}, bad{5}, other{12};
  EXPECT_THAT(test::error_of([&] { dataset->get(bad); }), HasSubstr("a torn row"));
  EXPECT_EQ(dataset->get(before)["data"].item<int64_t>(), 4);
  EXPECT_EQ(dataset->get(other)["data"].item<int64_t>(), 12);
}

TEST(Stream, IsToldFromOthersByItsSizesAndFirstSamples) {
  const auto reads = std::make_shared<Reads>();
  const Numbers stream({1000, 0, 1000}, {}, reads);
  const uint32_t own = stream.fingerprint();
  EXPECT_EQ(reads->samples, 2);
  EXPECT_EQ(stream.fingerprint(), own);
  EXPECT_EQ(Numbers({1000, 0, 1000}, {.lanes = 2}).fingerprint(), own);
  EXPECT_NE(Numbers({1000, 1000, 0}, {}).fingerprint(), own);
  EXPECT_NE(Numbers({999, 0, 1001}, {}).fingerprint(), own);
}

TEST(Stream, ItsOrderStaysBehindTransforms) {
  const auto dataset = std::make_shared<Numbers>(std::vector<int64_t>{6, 6}, StreamOptions{2, 3});
  const auto same = transformed(dataset, {each_sample([](Sample&, Rng&) {})});
  EXPECT_EQ(read_epoch(same, {.seed = 4}, 1), read_epoch(dataset, {.seed = 4}, 1));
}

TEST(Stream, RefusesOptionsThatCannotBe) {
  const auto made = [](const StreamOptions& options, int64_t size) {
    return test::error_of([&] { Numbers(std::vector<int64_t>{size}, options); });
  };
  EXPECT_THAT(made({.lanes = 0}, 1), HasSubstr("at least 1 (got 0 and 256)"));
  EXPECT_THAT(made({.shuffle_window = 0}, 1), HasSubstr("(got 16 and 0)"));
  EXPECT_THAT(made({}, -1), HasSubstr("0 samples or more (got -1)"));
  EXPECT_THAT(test::error_of([] {
                Numbers({INT64_MAX, 0, 1}, {});
              }),
              HasSubstr("counted with 64 bits (got 9223372036854775807 and 1)"));
}

TEST(Stream, MoreLanesThanShardsAndALargerWindowThanTheDataChangeNothing) {
  const std::vector<int64_t> sizes{5, 0, 7, 3};
  const auto all = std::make_shared<Numbers>(sizes, StreamOptions{4, 15});
  const auto beyond = std::make_shared<Numbers>(sizes, StreamOptions{INT64_MAX, INT64_MAX});
  EXPECT_EQ(read_epoch(beyond, {.seed = 4}, 1), read_epoch(all, {.seed = 4}, 1));
}

}  // namespace
}  // namespace muster::data
