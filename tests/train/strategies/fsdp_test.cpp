// Strategy fsdp: what is its own beside what zero_test.cpp says of all stages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/train/small_run.h"

namespace muster {
namespace {

using test::expect_same_state;
using test::Ran;
using test::run_as;
using test::small_run;
using ::testing::HasSubstr;

// Of three ranks one has no sample of the test, and gathers weights for the others all the same.
TEST(Fsdp, EvaluatesWithRanksThatHaveNoBatch) {
  train::TrainOptions options = small_run();
  options.data = "synthetic:samples=40,test_samples=2,size=8,classes=4,noise=0.3";
  options.validation_samples = 4;
  options.batch_size = 12;
  options.test_weights = "best";
  const test::Folder ddp_folder, fsdp_folder;
  const Ran ddp = run_as("ddp", options, 3, ddp_folder.path());
  const Ran fsdp = run_as("fsdp", options, 3, fsdp_folder.path());
  expect_same_state(fsdp.last, ddp.last);
  EXPECT_EQ(fsdp.result.test.metrics["loss"], ddp.result.test.metrics["loss"]);
}

TEST(Fsdp, EndsWhereAPieceOfSomeRankIsNotFinite) {
  train::TrainOptions options = small_run();
  options.model = "mlp:hidden=16";
  options.lr = 1e300;
  options.max_steps = 1;
  options.batch_size = 12;
  const test::Folder folder;
  EXPECT_THAT(test::error_of([&] { run_as("fsdp", options, 3, folder.path()); }),
              HasSubstr("the tensor fc1."));
}

TEST(Fsdp, DoesNotAverageWeightsOf16Bits) {
  train::TrainOptions options = small_run();
  options.ema_decay = 0.9;
  const test::Folder folder;
  EXPECT_THAT(test::error_of([&] { run_as("fsdp:dtype=bfloat16", options, 2, folder.path()); }),
              HasSubstr("strategy fsdp with --ema-decay"));
}

}  // namespace
}  // namespace muster
