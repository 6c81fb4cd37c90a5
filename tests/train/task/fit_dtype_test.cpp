// fit() where the weights are of 16 bits: so are the batches.
#include <atomic>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/support/folder.h"
#include "tests/train/task/own_fit.h"

namespace muster::train {
namespace {

using test::always;
using test::Line;
using test::maker;
using test::numbers;
using test::OwnRun;
using test::run_own;
using test::small_own;
using test::weight_of;

/// Notes what its steps and weights are asked about.
class Asked final : public Task {
 public:
  explicit Asked(std::atomic<int>& wrong) : wrong_(wrong) {}
  std::string name() const override { return "asked"; }
  std::shared_ptr<torch::nn::Module> module() override { return net_.ptr(); }
  bool has_own_weights() const override { return true; }
  double weight(const data::Batch& batch) const override {
    wrong_ += batch["y"].scalar_type() != torch::kFloat;  // a sum of 16 bits would be rounded
    return static_cast<double>(batch.size());
  }
  StepResult train_step(const data::Batch& batch, const StepContext&) override {
    wrong_ += batch["y"].scalar_type() != torch::kBFloat16;
    wrong_ += batch["length"].scalar_type() != torch::kLong;
    return {torch::mse_loss(net_->forward(batch["x"]).squeeze(1), batch["y"])};
  }

 private:
  torch::nn::Linear net_{3, 1};
  std::atomic<int>& wrong_;
};

TEST(Fit, BatchesAreInBfloat16WhereTheWeightsAre) {
  const FitData data{.train = numbers(), .validation = numbers(18), .test = numbers(5)};
  FitOptions options = small_own();
  const test::Folder float_folder;
  const OwnRun in_float = run_own(options, 2, data, maker<Line>(), float_folder.path());
  for (const char* strategy : {"zero1:dtype=bfloat16", "zero2:dtype=bfloat16"}) {
    options.strategy = strategy;
    std::atomic<int> wrong = 0;
    const test::Folder folder;
    const OwnRun ran = run_own(
        options, 2, data, always([&] { return std::make_unique<Asked>(wrong); }), folder.path());
    EXPECT_EQ(wrong, 0) << strategy;
    EXPECT_EQ(weight_of(ran.last, "weight").scalar_type(), torch::kBFloat16);
    EXPECT_NEAR(ran.result.test.metrics["loss"], in_float.result.test.metrics["loss"], 0.02);
    const OwnRun again = run_own(options,
                                 2,
                                 data,
                                 always([&] { return std::make_unique<Asked>(wrong); }),
                                 folder.path(),
                                 {},
                                 checkpoint_folder(folder.path(), 3));
    EXPECT_TRUE(torch::equal(weight_of(again.last, "weight"), weight_of(ran.last, "weight")));
  }
}

}  // namespace
}  // namespace muster::train
