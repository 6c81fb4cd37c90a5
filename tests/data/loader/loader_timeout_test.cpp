// A worker that does not come back is named, and holds nobody up.
#include <chrono>
#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/data/in_hand.h"
#include "muster/data/loader/loader.h"

#include "tests/data/loader/loader_fixtures.h"
#include "tests/support/error_of.h"

namespace muster::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr double kSoonS = 0.05;  // the gate is shut: it may be longer, and never too short

TEST(LoaderTimeout, NamesTheBatchAndTheSamplesOfADatasetThatSaysNothing) {
  const auto data = std::make_shared<Gated>(30);
  data->set_open(false);
  Loader loader(data, {.batch_size = 10, .workers = 2, .timeout_s = kSoonS});
  Epoch epoch = loader.epoch(4);
  data->await_calls(2);
  for (int again = 0; again < 2; ++again) {
    EXPECT_THAT(test::error_of([&] { epoch.next(); }),
                AllOf(HasSubstr("batch 0 of epoch 4"),
                      HasSubstr("within 0.05 s"),
                      HasSubstr("one of the samples 0, 1, 2, 3, 4, 5, 6, 7, …")));
  }
  data->set_open(true);
}

/// Says what it reads, and does not come back from one sample while the gate is shut.
class Reading final : public Numbers {
 public:
  Reading(int64_t samples, int64_t stuck) : Numbers(samples), gate_(samples), stuck_(stuck) {}
  Gated& gate() { return gate_; }

 private:
  Batch load(std::span<const int64_t> indices, const SampleContext& context) const override {
    for (const int64_t index : indices) {
      note_in_hand([&] { return concat("sample ", index, ", file ", index, ".jpg"); });
      if (index == stuck_) gate_.get({&index, 1}, context);
    }
    return Numbers::load(indices, context);
  }

  Gated gate_;
  int64_t stuck_;
};

/// The indices of the next batch. It may take longer than a timeout until its worker has the processor.
std::vector<int64_t> next_in_the_end(Epoch& epoch) {
  constexpr int kMostTries = 400;  // of kSoonS: 20 s
  for (int i = 0; i < kMostTries; ++i) {
    try {
      return epoch.next().value().indices;
    } catch (const Error& late) {
      EXPECT_THAT(late.what(), HasSubstr("still in hand: "));
    }
  }
  throw std::runtime_error("the batch has not come");
}

TEST(LoaderTimeout, NamesTheSampleAndGoesOnWhereItComesBack) {
  const auto data = std::make_shared<Reading>(40, 17);
  data->gate().set_open(false);
  Loader loader(data, {.batch_size = 10, .workers = 2, .timeout_s = kSoonS});
  Epoch epoch = loader.epoch(0);
  EXPECT_EQ(next_in_the_end(epoch)[0], 0);
  data->gate().await_calls(1);
  EXPECT_THAT(test::error_of([&] { epoch.next(); }),
              AllOf(HasSubstr("batch 1 of epoch 0"), HasSubstr("sample 17, file 17.jpg")));
  data->gate().set_open(true);
  Lists rest;
  while (rest.size() < 3) rest.push_back(next_in_the_end(epoch));
  EXPECT_EQ(rest[0][7], 17);
  EXPECT_EQ(rest[2][9], 39);
  EXPECT_FALSE(epoch.next());
}

TEST(LoaderTimeout, ALoaderEndsWithoutAWorkerThatWasGivenUp) {
  const auto data = std::make_shared<Gated>(10);
  data->set_open(false);
  {
    Loader loader(data, {.batch_size = 10, .workers = 1, .timeout_s = kSoonS});
    Epoch epoch = loader.epoch(0);
    data->await_calls(1);
    EXPECT_NE(test::error_of([&] { epoch.next(); }), test::kNoError);
  }
  EXPECT_GT(data.use_count(), 1) << "the thread still has it";
  data->set_open(true);
  while (data.use_count() > 1) std::this_thread::yield();
}

TEST(LoaderTimeout, IsANumberOfSecondsAndForWorkers) {
  const auto made = [](LoaderOptions options) {
    return test::error_of([&] { Loader(std::make_shared<Numbers>(3), options); });
  };
  EXPECT_THAT(made({.workers = 1, .timeout_s = -1}), HasSubstr("a number of seconds"));
  EXPECT_THAT(made({.workers = 1, .timeout_s = NAN}), HasSubstr("a number of seconds"));
  EXPECT_THAT(made({.workers = 0, .timeout_s = 1}), HasSubstr("for workers"));
  EXPECT_EQ(made({.workers = 1, .timeout_s = 1}), test::kNoError);
}

// More than a clock of nanoseconds counts: no batch may be given up at once.
TEST(LoaderTimeout, MayBeLongerThanAnyClock) {
  for (const double timeout_s : {9.3e9, 1e10, 1e300}) {
    const auto data = std::make_shared<Gated>(30);
    data->set_open(false);
    Loader loader(data, {.batch_size = 10, .workers = 1, .timeout_s = timeout_s});
    auto epoch = loader.epoch(0);
    std::thread opens([&] {
      data->await_calls(1);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // for next() to wait; none harms
      data->set_open(true);
    });
    EXPECT_EQ(test::error_of([&] { epoch.next(); }), test::kNoError) << timeout_s;
    opens.join();
  }
}

}  // namespace
}  // namespace muster::data
