// train::predict: each sample once, in order, on rank 0, whatever the number of ranks.
#include "muster/train/loop/predict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/data/sets/tensor_dataset.h"
#include "muster/testing/run_ranks.h"

#include "tests/support/error_of.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using train::PredictedRows;

/// Says of a sample its number, times a weight, and the rows that its forward had.
class Numbering : public train::Task {
 public:
  std::string name() const override { return "numbering"; }
  std::shared_ptr<torch::nn::Module> module() override { return net_.ptr(); }
  train::StepResult train_step(const data::Batch&, const train::StepContext&) override {
    return {};
  }
  tensor::NamedTensorList predict_step(const data::Batch& batch,
                                       const train::StepContext&) override {
    EXPECT_FALSE(torch::GradMode::is_enabled());
    EXPECT_FALSE(net_->is_training());
    const torch::Tensor number = batch["data"].select(1, 0);
    return {{"number", number.to(torch::kLong)},
            {"pair", torch::stack({number, 2 * number}, 1)},
            {"rows", torch::full_like(number, number.size(0))}};
  }

 private:
  torch::nn::Linear net_{1, 1};
};

/// A task of the library's own refusal.
class Silent final : public Numbering {
 public:
  tensor::NamedTensorList predict_step(const data::Batch& batch,
                                       const train::StepContext& context) override {
    return Task::predict_step(batch, context);
  }
};

/// Answers in float64 where a batch begins at `from`.
class Changing final : public Numbering {
 public:
  explicit Changing(int64_t from) : from_(from) {}
  tensor::NamedTensorList predict_step(const data::Batch& batch,
                                       const train::StepContext&) override {
    const torch::Tensor number = batch["data"].select(1, 0);
    const bool is_late = number[0].item<float>() >= static_cast<float>(from_);
    return {{"number", is_late ? number.to(torch::kDouble) : number}};
  }

 private:
  int64_t from_;
};

std::shared_ptr<const data::Dataset> rows_of_numbers(int64_t count) {
  const torch::Tensor x = torch::arange(count, torch::kFloat).unsqueeze(1);
  return std::make_shared<data::TensorDataset>(x, torch::zeros({count}));
}

struct SeenRows {
  std::vector<int64_t> numbers, firsts;
  std::vector<float> doubled, rows;
};

SeenRows predicted(int ranks, int64_t samples, int64_t batch_size, int64_t workers) {
  SeenRows seen;
  const auto data = rows_of_numbers(samples);
  testing::run_ranks(ranks, [&](distributed::ProcessGroup group) {
    Numbering task;
    const auto on_rows = [&](const PredictedRows& rows) {
      EXPECT_EQ(group.rank(), 0) << "only rank 0 gets answers";
      ASSERT_EQ(rows.columns.size(), 3U);
      seen.firsts.push_back(rows.first);
      const auto& number = rows.columns[0].second;
      for (int64_t i = 0; i < number.size(0); ++i) {
        seen.numbers.push_back(number[i].item<int64_t>());
        seen.doubled.push_back(rows.columns[1].second[i][1].item<float>());
        seen.rows.push_back(rows.columns[2].second[i].item<float>());
      }
    };
    train::predict(task, data, group, {.batch_size = batch_size, .workers = workers}, on_rows);
    EXPECT_TRUE(task.module()->is_training()) << "the mode is put back";
  });
  return seen;
}

TEST(Predict, GivesEachSampleOnceInTheDatasOrderOnAnyNumberOfRanks) {
  for (const int ranks : {1, 2, 3}) {
    for (const int64_t samples : {1, 2, 5, 24, 25, 37}) {  // fewer than ranks; whole rounds; a rest
      const SeenRows seen = predicted(ranks, samples, 4, samples % 2);
      ASSERT_EQ(seen.numbers.size(), static_cast<size_t>(samples)) << ranks << " ranks";
      for (int64_t i = 0; i < samples; ++i) {
        EXPECT_EQ(seen.numbers[i], i) << ranks << " ranks, " << samples << " samples";
        EXPECT_EQ(seen.doubled[i], 2.0F * static_cast<float>(i));
      }
      for (size_t round = 0; round < seen.firsts.size(); ++round)
        EXPECT_EQ(seen.firsts[round], static_cast<int64_t>(round) * 4 * ranks);
    }
  }
}

TEST(Predict, EveryForwardHasAsManySamples) {
  for (const int ranks : {1, 2, 3}) {
    for (const float rows : predicted(ranks, 25, 4, 0).rows) EXPECT_EQ(rows, 4.0F);
    for (const float rows : predicted(ranks, 3, 4, 0).rows) EXPECT_EQ(rows, 4.0F);
    for (const float rows : predicted(ranks, 31, 256, 0).rows) EXPECT_EQ(rows, 32.0F);
    for (const float rows : predicted(ranks, 70, 31, 0).rows) EXPECT_EQ(rows, 32.0F);
  }
}

/// A small network of float32 products, which all ranks share.
class Network final : public Numbering {
 public:
  explicit Network(torch::nn::Sequential layers) : layers_(std::move(layers)) {}
  tensor::NamedTensorList predict_step(const data::Batch& batch,
                                       const train::StepContext&) override {
    return {{"y", layers_->forward(batch["data"])}};
  }

 private:
  torch::nn::Sequential layers_;
};

// 31 rows are no whole blocks of a product's rows; those behind the last one are rounded otherwise.
TEST(Predict, SaysTheSameBitsOfASampleOnAnyNumberOfRanks) {
  const at::Generator generator = at::detail::createCPUGenerator(3);
  const auto data =
      std::make_shared<data::TensorDataset>(torch::rand({31, 8}, generator), torch::zeros({31}));
  torch::manual_seed(0);
  const torch::nn::Sequential layers(
      torch::nn::Linear(8, 32), torch::nn::Tanh(), torch::nn::Linear(32, 1));
  for (const int64_t batch_size : {31, 17, 256}) {
    std::vector<torch::Tensor> by_ranks;
    for (const int ranks : {1, 2, 3}) {
      std::vector<torch::Tensor> answers;
      testing::run_ranks(ranks, [&](distributed::ProcessGroup group) {
        Network task(layers);
        train::predict(
            task, data, group, {.batch_size = batch_size}, [&](const PredictedRows& rows) {
              answers.push_back(rows.columns[0].second.clone());
            });
      });
      by_ranks.push_back(torch::cat(answers));
    }
    EXPECT_TRUE(torch::equal(by_ranks[0], by_ranks[1])) << batch_size;
    EXPECT_TRUE(torch::equal(by_ranks[0], by_ranks[2])) << batch_size;
  }
}

TEST(Predict, GivesNothingForNoSamples) {
  EXPECT_THAT(predicted(2, 0, 4, 0).firsts, ::testing::IsEmpty());
}

template <class SomeTask, class... Args>
std::string refusal(int ranks, int64_t samples, Args... args) {
  return test::error_of([&] {
    testing::run_ranks(ranks, [&](distributed::ProcessGroup group) {
      SomeTask task(args...);
      train::predict(
          task, rows_of_numbers(samples), group, {.batch_size = 4}, [](const PredictedRows&) {});
    });
  });
}

TEST(Predict, RefusesATaskThatPredictsNothing) {
  for (const int ranks : {1, 2}) {
    EXPECT_THAT(refusal<Silent>(ranks, 9),
                HasSubstr("it predicts nothing: it has no predict_step() of its own"));
  }
}

TEST(Predict, RefusesAnswersThatAreUnlikeBetweenBatches) {
  for (const int ranks : {1, 2}) {
    const std::string text = refusal<Changing>(ranks, 25, 8);
    EXPECT_THAT(text,
                HasSubstr("task numbering: its predictions: alike for all batches and ranks"));
    EXPECT_THAT(text, HasSubstr("number float64"));
  }
}

/// One row for all samples.
class TooFew final : public Numbering {
 public:
  tensor::NamedTensorList predict_step(const data::Batch&, const train::StepContext&) override {
    return {{"sum", torch::zeros({7})}};
  }
};

TEST(Predict, RefusesAnswersThatAreNotOnePerSample) {
  EXPECT_THAT(refusal<TooFew>(1, 9),
              HasSubstr("prediction sum: one row for each of the 1 sample of its batch"));
}

}  // namespace
}  // namespace muster
