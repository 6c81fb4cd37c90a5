// --activation-checkpointing: the bits of a run do not depend on it, whatever the model and strategy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"

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

/// A few steps on 8 x 8 images, by `strategy` on `world` ranks.
Ran run_with(const std::string& rule,
             const std::string& model,
             const std::string& strategy = "single",
             int world = 1,
             const std::string& precision = "32") {
  train::TrainOptions options = small_run();
  options.model = model;
  options.activation_checkpointing = rule;
  options.precision = precision;
  options.sync_batch_norm = world > 1;
  options.batch_size = 12;
  options.epochs = 1;
  options.max_steps = 4;
  options.gradient_clip_val = 0.5;
  const test::Folder folder;
  return run_as(strategy, options, world, folder.path());
}

/// Dropout and batch norms among them: random numbers and running statistics are those of one run.
constexpr const char* kModels[] = {"cnn:width=4,hidden=16",
                                   "lenet",
                                   "lstm:hidden=12,dropout=0.3",
                                   "mlp:hidden=16",
                                   "transformer:layers=3"};

TEST(ActivationCheckpointing, LeavesEveryBitOfARun) {
  for (const char* model : kModels) {
    SCOPED_TRACE(model);
    const Ran plain = run_with("off", model);
    for (const char* rule : {"blocks", "every:2", "budget:1GiB", "budget:400KiB"})
      expect_same_state(run_with(rule, model).last, plain.last);
  }
}

TEST(ActivationCheckpointing, LeavesEveryBitUnderEveryStrategy) {
  for (const char* model : {"cnn:width=4,hidden=16", "transformer"}) {
    for (const char* strategy : {"ddp", "zero2", "fsdp"}) {
      SCOPED_TRACE(model + std::string(" ") + strategy);
      expect_same_state(run_with("blocks", model, strategy, 2).last,
                        run_with("off", model, strategy, 2).last);
    }
    expect_same_state(run_with("budget:1MiB", model, "fsdp", 2, "bf16-mixed").last,
                      run_with("off", model, "fsdp", 2, "bf16-mixed").last);
  }
}

TEST(ActivationCheckpointing, IsRefusedWhereItCannotBe) {
  EXPECT_THAT(test::error_of([] { run_with("sometimes", "mlp"); }),
              HasSubstr("--activation-checkpointing"));
  EXPECT_THAT(test::error_of([] { run_with("budget:1KiB", "transformer"); }),
              ::testing::ContainsRegex(
                  "they need [0-9]+ bytes at least, with [0-9]+ of [0-9]+ blocks run again"));
}

}  // namespace
}  // namespace muster
