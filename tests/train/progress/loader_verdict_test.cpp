#include "muster/train/progress/loader_verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::train {
namespace {

TEST(LoaderVerdict, IsSilentWhereStepsHardlyWaited) {
  EXPECT_EQ(loader_verdict({}, {}), "");
  EXPECT_EQ(loader_verdict({{.elapsed_s = 0, .waited_s = 0}}, {}), "");
  EXPECT_EQ(loader_verdict({{.elapsed_s = 100, .waited_s = 10}}, {}), "");
  EXPECT_EQ(loader_verdict({{.elapsed_s = 1.5, .waited_s = 0.9}}, {}), "") << "a run that is tried";
}

TEST(LoaderVerdict, SaysHowManyWorkersThereAreCoresFor) {
  EXPECT_EQ(
      loader_verdict({{.elapsed_s = 10, .waited_s = 4}}, {.workers = 1, .cores = 4}),
      "loader-bound: steps waited for batches in 40% of the time: try --workers 3 (now 1 worker, "
      "4 cores)");
  EXPECT_EQ(
      loader_verdict({{.elapsed_s = 10, .waited_s = 5}}, {.workers = 1, .cores = 2}),
      "loader-bound: steps waited for batches in 50% of the time: the cores are taken (1 worker, 2 "
      "cores): store smaller images or decoded samples, or make --train-transform cheaper");
}

TEST(LoaderVerdict, IsOfTheRankThatWaitedLongest) {
  EXPECT_EQ(
      loader_verdict({{.elapsed_s = 10, .waited_s = 0.5}, {.elapsed_s = 10, .waited_s = 3}},
                     {.workers = 0, .cores = 8, .local_ranks = 2}),
      "loader-bound: steps of rank 1 waited for batches in 30% of the time: try --workers 3 (now 0 "
      "workers of each rank, 8 cores for 2 ranks)");
}

TEST(LoaderVerdict, LeavesOutTheFirstBatchOfEachEpoch) {
  data::LoaderStats all;
  all += {.elapsed_s = 10, .waited_s = 4, .first_wait_s = 2};
  all += {.elapsed_s = 5, .waited_s = 1, .first_wait_s = 1};
  EXPECT_DOUBLE_EQ(all.elapsed_s - all.first_wait_s, 12);
  EXPECT_DOUBLE_EQ(all.waited_s - all.first_wait_s, 2);
  EXPECT_DOUBLE_EQ(all.waiting_share(), 2.0 / 12);
}

}  // namespace
}  // namespace muster::train
