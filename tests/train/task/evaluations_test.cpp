// What a task may say of its batches and its evaluations, and that fit, evaluate and predict obey.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/data/sets/sample_dataset.h"
#include "muster/testing/run_ranks.h"
#include "muster/train/loop/evaluate.h"
#include "muster/train/loop/fit.h"
#include "muster/train/loop/predict.h"
#include "muster/train/loop/resolve.h"

#include "tests/support/folder.h"

namespace muster::train {
namespace {

using distributed::ProcessGroup;

constexpr int64_t kRagged = 13;

/// Sample i has i % 4 + 1 numbers, each i: they cannot be stacked.
class Ragged final : public data::SampleDataset {
 public:
  int64_t size() const override { return kRagged; }
  data::DataSpec spec() const override { return {.name = "ragged"}; }

 private:
  data::Sample sample(int64_t index, const data::SampleContext&) const override {
    return {.tensors = {{"numbers", torch::full({index % 4 + 1}, static_cast<float>(index))}}};
  }
};

/// Says each sample's sum of numbers; pads them itself.
class Summing : public Task {
 public:
  std::string name() const override { return "summing"; }
  std::shared_ptr<torch::nn::Module> module() override { return net_.ptr(); }
  std::vector<Metric> metrics() const override { return {{.name = "sum", .reduce = Reduce::kSum}}; }
  std::optional<data::Collate> collate() const override {
    return data::Collate(
        {{.tensor = "numbers", .how = data::CollateRule::How::kPad, .value = -1, .mask = "mask"}});
  }
  StepResult train_step(const data::Batch& batch, const StepContext&) override {
    const at::Tensor sums = sums_of(batch);
    return {.loss = net_->forward(sums.unsqueeze(1)).mean(), .values = {{"sum", sums.sum(), {}}}};
  }
  StepResult evaluate_step(const data::Batch& batch, const StepContext& context) override {
    in_inference_ = c10::InferenceMode::is_enabled();
    return train_step(batch, context);
  }
  tensor::NamedTensorList predict_step(const data::Batch& batch, const StepContext&) override {
    in_inference_ = c10::InferenceMode::is_enabled();
    return {{"sum", sums_of(batch)}};
  }
  bool in_inference() const { return in_inference_; }

 private:
  static at::Tensor sums_of(const data::Batch& batch) {
    return (batch["numbers"] * batch["mask"]).sum(1);
  }

  torch::nn::Linear net_{1, 1};
  bool in_inference_ = false;
};

class Keeping final : public Summing {
 public:
  bool evaluates_in_inference_mode() const override { return false; }
};

/// The sum of all numbers: i is there i % 4 + 1 times.
double sum_of_all() {
  double sum = 0;
  for (int64_t i = 0; i < kRagged; ++i) sum += static_cast<double>(i * (i % 4 + 1));
  return sum;
}

TEST(TaskCollate, IsThatOfEvaluateAndPredictOnAnyNumberOfRanks) {
  for (const int ranks : {1, 2, 3}) {
    testing::run_ranks(ranks, [](const ProcessGroup& group) {
      Summing task;
      const auto ragged = std::make_shared<Ragged>();
      const Evaluation seen = evaluate(task, ragged, group, {.batch_size = 3});
      EXPECT_DOUBLE_EQ(seen.metrics["sum"], sum_of_all());
      EXPECT_TRUE(task.in_inference());
      int64_t next = 0;
      predict(task, ragged, group, {.batch_size = 3}, [&](const PredictedRows& rows) {
        const at::Tensor sums = rows.columns.at(0).second;
        for (int64_t row = 0; row < sums.size(0); ++row, ++next)
          EXPECT_EQ(sums[row].item<int64_t>(), next * (next % 4 + 1));
      });
      EXPECT_EQ(next, group.rank() == 0 ? kRagged : 0);
    });
  }
}

TEST(TaskCollate, IsThatOfFit) {
  for (const int world : {1, 2}) {
    const test::Folder folder;
    testing::run_ranks(world, [&](const ProcessGroup& group) {
      FitOptions options;
      options.epochs = 1;
      options.batch_size = 4;
      options.lr = 0.001;
      options.workers = 1;
      const FitData data{.train = std::make_shared<Ragged>(),
                         .validation = {},
                         .test = std::make_shared<Ragged>()};
      FitPlan plan;
      static_cast<FitNumbers&>(plan) =
          resolve_fit(options,
                      {.world_size = world, .local_world_size = world, .cores = 2},
                      data.facts(),
                      Summing().metrics());
      plan.options = options;
      plan.record = to_json(options, plan);
      const FitResult result = fit({.task = [] { return std::make_unique<Summing>(); },
                                    .data = data,
                                    .plan = plan,
                                    .output = folder.path()},
                                   group);
      EXPECT_EQ(result.steps, 4);
      EXPECT_DOUBLE_EQ(result.test.metrics["sum"], sum_of_all());
    });
  }
}

TEST(TaskEvaluation, IsInInferenceModeUnlessTheTaskKeepsWhatItMakes) {
  testing::run_ranks(2, [](const ProcessGroup& group) {
    Keeping task;
    evaluate(task, std::make_shared<Ragged>(), group, {});
    EXPECT_FALSE(task.in_inference());
    predict(task, std::make_shared<Ragged>(), group, {}, {[](const PredictedRows&) {}});
    EXPECT_FALSE(task.in_inference());
    EXPECT_FALSE(c10::InferenceMode::is_enabled());
  });
}

}  // namespace
}  // namespace muster::train
