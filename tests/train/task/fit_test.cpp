// fit() with tasks of one's own: what it trains is what a loop by hand trains.
#include "muster/train/loop/fit.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/train/task/own_fit.h"

namespace muster::train {
namespace {

using distributed::ProcessGroup;
using test::always;
using test::kSamples;
using test::Line;
using test::Maker;
using test::maker;
using test::numbers;
using test::OwnRun;
using test::run_own;
using test::small_own;
using test::weight_of;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Fit, EndsWithTheWeightsOfALoopByHand) {
  const FitData data{.train = numbers()};
  const test::Folder folder;
  FitOptions options = small_own();
  options.batch_size = kSamples;  // one step per epoch: whatever the order
  const OwnRun ran = run_own(options, 1, data, maker<Line>(), folder.path());
  torch::manual_seed(0);
  torch::nn::Linear net(3, 1);
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  std::vector<int64_t> all(kSamples);
  std::iota(all.begin(), all.end(), 0);
  const data::Batch batch = data.train->get(all);
  for (int64_t epoch = 0; epoch < options.epochs; ++epoch) {
    optimizer.zero_grad();
    torch::mse_loss(net->forward(batch["x"]).squeeze(1), batch["y"]).backward();
    optimizer.step();
  }
  EXPECT_TRUE(torch::allclose(weight_of(ran.last, "weight"), net->weight, 0, 1e-6))
      << weight_of(ran.last, "weight") << net->weight;
  EXPECT_TRUE(torch::allclose(weight_of(ran.last, "bias"), net->bias, 0, 1e-6));
  EXPECT_EQ(ran.result.steps, 2);
  EXPECT_TRUE(ran.result.test.metrics.empty());
}

/// Two networks that push against each other.
struct PairImpl : torch::nn::Module {
  torch::nn::Linear first = register_module("first", torch::nn::Linear(3, 1));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(3, 1));
};
TORCH_MODULE(Pair);

at::Tensor first_loss(Pair& net, const data::Batch& batch) {
  return torch::mse_loss(net->first(batch["x"]), net->second(batch["x"])) +
         torch::mse_loss(net->first(batch["x"]).squeeze(1), batch["y"]);
}
at::Tensor second_loss(Pair& net, const data::Batch& batch) {
  return (1 / (1 + (net->first(batch["x"]) - net->second(batch["x"])).pow(2))).mean();
}

class Pushing final : public Task {
 public:
  std::string name() const override { return "pushing"; }
  std::shared_ptr<torch::nn::Module> module() override { return net_.ptr(); }
  std::vector<TaskPart> parts() override {
    return {{"first", net_->first.ptr()}, {"second", net_->second.ptr()}};
  }
  StepResult train_step(const data::Batch& batch, const StepContext& context) override {
    const bool first = context.part == 0;
    EXPECT_EQ(net_->first->weight.requires_grad(), first);
    EXPECT_EQ(net_->second->weight.requires_grad(), !first);
    return {first ? first_loss(net_, batch) : second_loss(net_, batch)};
  }

 private:
  Pair net_;
};

TEST(Fit, PartsStepOneAfterTheOtherWithOptimizersOfTheirOwn) {
  const FitData data{.train = numbers()};
  FitOptions options = small_own();
  options.batch_size = kSamples;
  options.optimizer = "sgd:momentum=0.9";
  torch::manual_seed(0);
  Pair net;
  const torch::optim::SGDOptions how = torch::optim::SGDOptions(0.1).momentum(0.9);
  torch::optim::SGD of_first(net->first->parameters(), how);
  torch::optim::SGD of_second(net->second->parameters(), how);
  std::vector<int64_t> all(kSamples);
  std::iota(all.begin(), all.end(), 0);
  const data::Batch batch = data.train->get(all);
  for (int64_t epoch = 0; epoch < options.epochs; ++epoch) {
    of_first.zero_grad();
    first_loss(net, batch).backward();
    of_first.step();
    of_second.zero_grad();
    second_loss(net, batch).backward();
    of_second.step();
  }
  for (const int world : {1, 2}) {
    const test::Folder folder;
    const OwnRun ran = run_own(options, world, data, maker<Pushing>(), folder.path());
    for (const auto& item : net->named_parameters())
      EXPECT_TRUE(torch::allclose(weight_of(ran.last, item.key()), item.value(), 0, 1e-6))
          << item.key() << " on " << world;
  }
}

/// The mean over what `length` counts.
class Weighted final : public Task {
 public:
  std::string name() const override { return "weighted"; }
  std::shared_ptr<torch::nn::Module> module() override { return net_.ptr(); }
  bool has_own_weights() const override { return true; }
  double weight(const data::Batch& batch) const override {
    return batch["length"].sum().item<double>();
  }
  StepResult train_step(const data::Batch& batch, const StepContext&) override {
    const at::Tensor each = (net_->forward(batch["x"]).squeeze(1) - batch["y"]).pow(2);
    const at::Tensor count = batch["length"].sum().clamp_min(1);
    return {(each * batch["length"]).sum() / count};
  }

 private:
  torch::nn::Linear net_{3, 1};
};

TEST(Fit, AStepIsTheMeanOverAllWeightsOfAllRanksAndBatches) {
  const FitData data{.train = numbers(), .validation = numbers(18)};
  FitOptions options = small_own();
  options.batch_size = 6;
  options.accumulate_grad_batches = 2;
  std::optional<OwnRun> alone;
  for (const int world : {1, 2, 3}) {
    const test::Folder folder;
    const OwnRun ran = run_own(options, world, data, maker<Weighted>(), folder.path());
    if (!alone) {
      alone = ran;
      continue;
    }
    EXPECT_TRUE(torch::allclose(
        weight_of(ran.last, "weight"), weight_of(alone->last, "weight"), 1e-5, 1e-6))
        << world;
  }
}

/// Counts in all ways.
class Counting final : public Task {
 public:
  static std::vector<Metric> list() {
    return {{.name = "mean_x"},
            {.name = "count", .reduce = Reduce::kSum},
            {.name = "least", .reduce = Reduce::kMin},
            {.name = "most", .reduce = Reduce::kMax}};
  }
  std::string name() const override { return "counting"; }
  std::shared_ptr<torch::nn::Module> module() override { return net_.ptr(); }
  std::vector<Metric> metrics() const override { return list(); }
  StepResult train_step(const data::Batch& batch, const StepContext&) override {
    const at::Tensor x = batch["x"].select(1, 0);
    return {torch::mse_loss(net_->forward(batch["x"]).squeeze(1), batch["y"]),
            {{"mean_x", x.sum(), {}},
             {"count", torch::tensor(x.size(0)), {}},
             {"least", x.min(), {}},
             {"most", x.max(), {}}}};
  }

 private:
  torch::nn::Linear net_{3, 1};
};

TEST(Fit, MetricsAreOfAllSamplesOnAnyNumberOfRanks) {
  const auto test_set = numbers(19);  // no equal shares
  const FitData data{.train = numbers(), .test = test_set};
  std::vector<int64_t> all(19);
  std::iota(all.begin(), all.end(), 0);
  const at::Tensor x = test_set->get(all)["x"].select(1, 0);
  for (const int world : {1, 2, 4}) {
    const test::Folder folder;
    const Metrics seen =
        run_own(small_own(), world, data, maker<Counting>(), folder.path(), Counting::list())
            .result.test.metrics;
    EXPECT_NEAR(seen["mean_x"], x.mean().item<double>(), 1e-6) << world;
    EXPECT_EQ(seen["count"], 19) << world;
    EXPECT_EQ(seen["least"], x.min().item<float>()) << world;
    EXPECT_EQ(seen["most"], x.max().item<float>()) << world;
  }
}

/// A Line whose step a test replaces.
class Odd final : public Task {
 public:
  using StepOf = std::function<StepResult(torch::nn::Linear&, const data::Batch&)>;
  Odd(std::string name, StepOf step) : name_(std::move(name)), step_(std::move(step)) {}
  std::string name() const override { return name_; }
  std::shared_ptr<torch::nn::Module> module() override { return net_.ptr(); }
  StepResult train_step(const data::Batch& batch, const StepContext&) override {
    return step_(net_, batch);
  }

 private:
  std::string name_;
  StepOf step_;
  torch::nn::Linear net_{3, 1};
};

std::string error_with(const Odd::StepOf& step, int world = 1) {
  const test::Folder folder;
  return test::error_of([&] {
    run_own(small_own(),
            world,
            {.train = numbers()},
            always([&] { return std::make_unique<Odd>("odd", step); }),
            folder.path());
  });
}

TEST(Fit, RefusesALossThatCannotBeTrained) {
  EXPECT_THAT(error_with([](auto& net, const auto& batch) {
                return StepResult{net(batch["x"]).mean().detach()};
              }),
              AllOf(HasSubstr("task odd, train_step (step 1): the loss of a step"),
                    HasSubstr("a loss without gradient")));
  EXPECT_THAT(
      error_with([](auto& net, const auto& batch) { return StepResult{net(batch["x"])}; }, 2),
      AllOf(HasSubstr("a tensor of one element"), HasSubstr("a tensor of shape [4, 1]")));
  EXPECT_THAT(error_with([](auto&, const auto&) { return StepResult{}; }), HasSubstr("got none"));
}

TEST(Fit, RefusesAValueThatIsNoMetricOfTheTask) {
  EXPECT_THAT(error_with([](auto& net, const auto& batch) {
                return StepResult{net(batch["x"]).mean(), {{"accuracy", torch::tensor(1), {}}}};
              }),
              HasSubstr("task odd, train_step (step 1): metric accuracy"));
}

/// A Line that tells "seen" of its steps as a test says.
class Telling final : public Line {
 public:
  explicit Telling(std::vector<StepResult::Value> values) : values_(std::move(values)) {}
  std::vector<Metric> metrics() const override { return {{.name = "seen"}}; }
  StepResult train_step(const data::Batch& batch, const StepContext& context) override {
    return {Line::train_step(batch, context).loss, values_};
  }

 private:
  std::vector<StepResult::Value> values_;
};

std::string error_telling(const std::vector<StepResult::Value>& values) {
  const test::Folder folder;
  return test::error_of([&] {
    run_own(small_own(),
            1,
            {.train = numbers()},
            always([&] { return std::make_unique<Telling>(values); }),
            folder.path(),
            {{.name = "seen"}});
  });
}

TEST(Fit, RefusesAValueThatIsToldTwiceOrWeighsLessThanNothing) {
  const at::Tensor one = torch::tensor(1.0);
  EXPECT_EQ(error_telling({{"seen", one, 0.0}}), test::kNoError);
  EXPECT_THAT(
      error_telling({{"seen", one, {}}, {"seen", one, {}}}),
      AllOf(HasSubstr("task line, train_step (step 1): metric seen"), HasSubstr("one value")));
  EXPECT_THAT(error_telling({{"seen", one, -3.0}}), HasSubstr("(got -3)"));
  EXPECT_THAT(error_telling({{"seen", one, std::nan("")}}), HasSubstr("(got nan)"));
}

TEST(Fit, ALossThatIsNotFiniteOnOneRankEndsAll) {
  EXPECT_THAT(error_with(
                  [](auto& net, const auto& batch) {
                    const at::Tensor loss = net(batch["x"]).mean();
                    return StepResult{batch.indices[0] % 2 == 0 ? loss : loss / 0};
                  },
                  2),
              HasSubstr("the loss"));
}

TEST(Fit, AnExceptionOfTheTaskOnOneRankEndsAll) {
  const test::Folder folder;
  const Maker make = [](int rank) {
    return std::make_unique<Odd>("odd", [rank](auto& net, const auto& batch) -> StepResult {
      if (rank == 1) throw std::runtime_error("no more tokens");
      return {net(batch["x"]).mean()};
    });
  };
  EXPECT_THAT(
      test::error_of([&] { run_own(small_own(), 2, {.train = numbers()}, make, folder.path()); }),
      HasSubstr("no more tokens"));
}

TEST(Fit, RefusesRanksThatTrainOtherThings) {
  const test::Folder folder;
  const auto step = [](auto& net, const auto& batch) { return StepResult{net(batch["x"]).mean()}; };
  const Maker make = [&](int rank) {
    return std::make_unique<Odd>(rank == 0 ? "odd" : "even", step);
  };
  EXPECT_THAT(
      test::error_of([&] { run_own(small_own(), 2, {.train = numbers()}, make, folder.path()); }),
      AllOf(HasSubstr("all ranks train the same task"),
            HasSubstr("rank 0: task odd"),
            HasSubstr("rank 1: task even")));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "config.json"));
}

TEST(Fit, RefusesACheckpointOfAnotherTaskOrOfOtherData) {
  const test::Folder folder;
  const FitData data{.train = numbers()};
  const OwnRun ran = run_own(small_own(), 1, data, maker<Line>(), folder.path());
  FitOptions more = small_own();
  more.epochs = 4;
  EXPECT_THAT(
      test::error_of([&] {
        run_own(more, 1, data, maker<Weighted>(), folder.path(), {}, ran.result.checkpoint);
      }),
      AllOf(HasSubstr("the checkpoint is of the task that goes on, weighted"), HasSubstr("line")));
  const FitData other{.train = numbers(2 * kSamples)};  // of which it would be said that it differs
  EXPECT_THAT(test::error_of([&] {
                run_own(
                    more, 1, other, maker<Weighted>(), folder.path(), {}, ran.result.checkpoint);
              }),
              HasSubstr("the checkpoint is of the task that goes on, weighted"));
  EXPECT_THAT(test::error_of([&] {
                run_own(more, 1, other, maker<Line>(), folder.path(), {}, ran.result.checkpoint);
              }),
              AllOf(HasSubstr("48 samples to train, before 24"), Not(HasSubstr("--weights"))));
  EXPECT_EQ(
      run_own(more, 1, data, maker<Line>(), folder.path(), {}, ran.result.checkpoint).result.steps,
      12);
}

}  // namespace
}  // namespace muster::train
