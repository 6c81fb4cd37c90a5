// Strategy pipeline with tasks of one's own: what comes before a module's units and behind them, and
// what is no chain.
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/text.h"
#include "muster/tensor/unit_call.h"
#include "muster/train/checkpoints/model_state.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/train/small_run.h"
#include "tests/train/task/own_fit.h"

namespace muster {
namespace {

using test::error_of;
using test::FitOptions;
using test::model_difference;
using test::numbers;
using test::OwnRun;
using test::run_own;
using test::small_own;
using test::StepContext;
using test::StepResult;
using test::Task;
using ::testing::HasSubstr;

/// What a module does between its units, which it may not.
enum class Between { kNothing, kTanh, kTanhInPlace, kPenalty };

/// Three layers, with something before them and behind.
struct ChainNetImpl : torch::nn::Module, tensor::HasUnits {
  explicit ChainNetImpl(Between between = Between::kNothing) : between(between) {
    for (int64_t i = 0; i < 3; ++i)
      layers.push_back(register_module(concat("layer", i), torch::nn::Linear(3, i == 2 ? 1 : 3)));
  }
  torch::Tensor forward(torch::Tensor x) {
    x = x * 2;
    penalty = torch::zeros({});
    for (size_t i = 0; i < layers.size(); ++i) {
      x = tensor::call_unit(concat("layer", i), layers[i], x);
      if (between == Between::kTanh) x = x.tanh();
      if (between == Between::kTanhInPlace) x.tanh_();
      if (between == Between::kPenalty && i == 0) penalty = x.square().mean();
    }
    return x.tanh();
  }
  std::vector<tensor::ChainedUnit> chain() override {
    std::vector<tensor::ChainedUnit> chain;
    for (size_t i = 0; i < layers.size(); ++i)
      chain.push_back(tensor::chained_unit(concat("layer", i), layers[i]));
    return chain;
  }
  Between between;
  torch::Tensor penalty;
  std::vector<torch::nn::Linear> layers;
};
TORCH_MODULE(ChainNet);

/// A loss with weights of its own, and a metric.
class ChainTask : public Task {
 public:
  explicit ChainTask(Between between = Between::kNothing) : net_(between) {}
  std::string name() const override { return "chain"; }
  std::shared_ptr<torch::nn::Module> module() override { return net_.ptr(); }
  std::vector<train::Metric> metrics() const override { return {{.name = "size"}}; }
  StepResult train_step(const data::Batch& batch, const StepContext&) override {
    const torch::Tensor weight = batch["length"].to(torch::kFloat);
    const torch::Tensor made = net_->forward(batch["x"] + 1).squeeze(1);
    const torch::Tensor loss = ((made - batch["y"]).square() * weight).sum();
    return {.loss = loss / weight.sum().clamp_min(1) + net_->penalty,
            .values = {{"size", made.detach().abs().sum(), {}}}};
  }
  double weight(const data::Batch& batch) const override {
    EXPECT_TRUE(batch["length"].is_cpu());
    return batch["length"].sum().item<double>();
  }
  bool has_own_weights() const override { return true; }

 protected:
  ChainNet net_;
};

const std::vector<train::Metric> kSizeMetric{{.name = "size"}};

/// "length" is 0 in every sixth sample, so that some micro-batches and shares weigh nothing.
TEST(PipelineTask, WeighsAsOneRank) {
  FitOptions options = small_own();
  options.accumulate_grad_batches = 2;
  options.batch_size = 4;
  const train::FitData data{.train = numbers(22), .test = numbers(7)};
  const test::Folder one_folder, cut_folder;
  const auto make = test::always([] { return std::make_unique<ChainTask>(); });
  const OwnRun one = run_own(options, 1, data, make, one_folder.path(), kSizeMetric);
  options.strategy = "pipeline:ranks=2,micro_batches=2";
  const OwnRun cut = run_own(options, 8, data, make, cut_folder.path(), kSizeMetric);
  EXPECT_LE(model_difference(cut.last, one.last), 1e-6);
  EXPECT_NEAR(cut.result.test.metrics["loss"], one.result.test.metrics["loss"], 1e-6);
  EXPECT_NEAR(cut.result.test.metrics["size"], one.result.test.metrics["size"], 1e-5);
}

std::string refusal_of_task(const test::Maker& make, const std::string& strategy) {
  FitOptions options = small_own();
  options.strategy = strategy;
  const test::Folder folder;
  const train::FitData data{.train = numbers()};
  return error_of([&] { run_own(options, 2, data, make, folder.path(), kSizeMetric); });
}

TEST(PipelineTask, MayNotComputeBetweenUnits) {
  for (const Between between : {Between::kTanh, Between::kTanhInPlace, Between::kPenalty}) {
    const auto make = test::always([=] { return std::make_unique<ChainTask>(between); });
    EXPECT_THAT(refusal_of_task(make, "pipeline:split=0/1"),
                HasSubstr("between its units it computes nothing"))
        << static_cast<int>(between);
  }
  EXPECT_THAT(refusal_of_task(test::maker<test::Line>(), "pipeline:split=0/1"),
              HasSubstr("the model is a row of units, between which it can be cut"));
}

/// Draws before the units: input and target are moved by the same noise.
class NoisyTask final : public ChainTask {
 public:
  StepResult train_step(const data::Batch& batch, const StepContext&) override {
    const torch::Tensor noise = torch::rand({batch.size(), 1}, generator_);
    const torch::Tensor made = net_->forward(batch["x"] + noise);
    seen_ += noise.sum().item<double>();
    return {.loss = (made - noise).square().mean() + 0 * noise.sum(), .values = {}};
  }
  bool has_own_weights() const override { return false; }
  double weight(const data::Batch& batch) const override {
    return static_cast<double>(batch.size());
  }
  bool set_generator(const at::Generator& generator) override {
    generator_ = generator;
    return true;
  }
  Json state() const override { return {{"seen", seen_}}; }
  void load_state(const Json& state) override { seen_ = state.at("seen").get<double>(); }

 private:
  at::Generator generator_;
  double seen_ = 0;
};

// Whoever computes what comes before the units draws the same; and the saved state is of the rank that
// has seen steps to their ends.
TEST(PipelineTask, DrawsTheSameOnEveryRankThatSeesABatch) {
  FitOptions options = small_own();
  const train::FitData data{.train = numbers()};
  const auto make = test::maker<NoisyTask>();
  const test::Folder one_folder, cut_folder;
  options.strategy = "pipeline:ranks=1,split=0,micro_batches=2";
  const OwnRun one = run_own(options, 1, data, make, one_folder.path(), kSizeMetric);
  options.strategy = "pipeline:split=0/1/2,micro_batches=2";
  const OwnRun cut = run_own(options, 3, data, make, cut_folder.path(), kSizeMetric);
  EXPECT_LE(model_difference(cut.last, one.last), 1e-6);
  EXPECT_GT(cut.last.loop.at("task").at("seen").get<double>(), 0);
  EXPECT_NEAR(cut.last.loop.at("task").at("seen").get<double>(),
              one.last.loop.at("task").at("seen").get<double>(),
              1e-6);
}

/// Two layers, the second of which takes its time once on one rank.
struct StallingNetImpl : torch::nn::Module, tensor::HasUnits {
  explicit StallingNetImpl(std::chrono::milliseconds stall) : stall(stall) {
    register_module("first", first);
    register_module("second", second);
  }
  torch::Tensor forward(torch::Tensor x) {
    for (const tensor::ChainedUnit& unit : chain())
      x = tensor::call_unit(unit.name, unit.name == "first" ? first : second, x);
    return x;
  }
  std::vector<tensor::ChainedUnit> chain() override {
    std::vector<tensor::ChainedUnit> chain{tensor::chained_unit("first", first),
                                           tensor::chained_unit("second", second)};
    chain[1].forward = [this](const std::vector<torch::Tensor>& inputs) {
      if (++calls == 2) std::this_thread::sleep_for(stall);
      return std::vector<torch::Tensor>{second->forward(inputs.at(0))};
    };
    return chain;
  }
  torch::nn::Linear first{3, 4}, second{4, 1};
  std::chrono::milliseconds stall;
  std::atomic<int> calls = 0;
};
TORCH_MODULE(StallingNet);

class StallingTask final : public Task {
 public:
  explicit StallingTask(std::chrono::milliseconds stall) : net_(stall) {}
  std::shared_ptr<torch::nn::Module> module() override { return net_.ptr(); }
  StepResult train_step(const data::Batch& batch, const StepContext&) override {
    return {torch::mse_loss(net_->forward(batch["x"]).squeeze(1), batch["y"])};
  }

 private:
  StallingNet net_;
};

TEST(PipelineTask, NamesTheStageThatStallsForLongerThanItsTimeout) {
  const std::string stall = "forward of stage 1, micro-batch 1 (1F1): a stall: it took ";
  std::string said;
  // A machine may take longer over something else: then all times are longer.
  for (std::chrono::milliseconds timeout(100); timeout < std::chrono::seconds(15); timeout *= 2) {
    const double seconds = std::chrono::duration<double>(timeout).count();
    said = refusal_of_task(
        [&](int rank) {
          return std::make_unique<StallingTask>(rank == 1 ? 4 * timeout
                                                          : std::chrono::milliseconds(0));
        },
        concat("pipeline:split=0/1,micro_batches=4,timeout=", seconds));
    if (said.find(stall) != std::string::npos) break;
  }
  EXPECT_THAT(said, HasSubstr(stall));
}

/// A model that has its samples along the second dimension, and a buffer beside its units.
struct TurnedNetImpl : torch::nn::Module, tensor::HasUnits {
  TurnedNetImpl() {
    register_module("first", first);
    register_module("second", second);
    count = register_buffer("count", torch::zeros({}));
  }
  torch::Tensor forward(torch::Tensor x) {
    x = tensor::call_unit("first", first, x);
    x = tensor::call_unit("second", second, x);
    if (counts) count.add_(1);
    return x;
  }
  std::vector<tensor::ChainedUnit> chain() override {
    return {tensor::chained_unit("first", first), tensor::chained_unit("second", second)};
  }
  torch::nn::Linear first{1, 4}, second{4, 1};
  torch::Tensor count;
  bool counts = false;
};
TORCH_MODULE(TurnedNet);

class TurnedTask final : public Task {
 public:
  explicit TurnedTask(bool counts = false) { net_->counts = counts; }
  std::string name() const override { return "turned"; }
  std::shared_ptr<torch::nn::Module> module() override { return net_.ptr(); }
  StepResult train_step(const data::Batch& batch, const StepContext&) override {
    const torch::Tensor by_time = batch["x"].transpose(0, 1).unsqueeze(2);  // [3, samples, 1]
    const torch::Tensor running = net_->forward(by_time).cumsum(0) / 3;
    return {torch::mse_loss(running[-1].squeeze(1), batch["y"])};
  }

 private:
  TurnedNet net_;
};

TEST(PipelineTask, CutsBatchesByTheirSamplesAndNotByWhatUnitsTake) {
  FitOptions options = small_own();
  options.lr = 0.01;
  const train::FitData data{.train = numbers(), .test = numbers(7)};
  const auto make = test::always([] { return std::make_unique<TurnedTask>(); });
  const test::Folder one_folder, cut_folder;
  const OwnRun one = run_own(options, 1, data, make, one_folder.path());
  options.strategy = "pipeline:split=0/1,micro_batches=3";
  const OwnRun cut = run_own(options, 2, data, make, cut_folder.path());
  EXPECT_LE(model_difference(cut.last, one.last), 1e-6);
  EXPECT_NEAR(cut.result.test.metrics["loss"], one.result.test.metrics["loss"], 1e-6);
}

TEST(PipelineTask, MayNotChangeBuffersThatNoUnitHas) {
  const auto make = test::always([] { return std::make_unique<TurnedTask>(true); });
  EXPECT_THAT(refusal_of_task(make, "pipeline:split=0/1"), HasSubstr("the buffer count"));
}

/// Two parts, each with running statistics.
class TwoNorms final : public Task {
 public:
  TwoNorms() {
    all_->register_module("a", a_);
    all_->register_module("b", b_);
  }
  std::shared_ptr<torch::nn::Module> module() override { return all_; }
  std::vector<train::TaskPart> parts() override { return {{"a", a_.ptr()}, {"b", b_.ptr()}}; }
  StepResult train_step(const data::Batch& batch, const StepContext& context) override {
    auto& net = context.part == 0 ? a_ : b_;
    return {torch::mse_loss(net->forward(batch["x"]).squeeze(1), batch["y"])};
  }
  StepResult evaluate_step(const data::Batch& batch, const StepContext&) override {
    return {torch::mse_loss(b_->forward(batch["x"]).squeeze(1), batch["y"])};
  }

 private:
  torch::nn::Sequential a_{torch::nn::BatchNorm1d(3), torch::nn::Linear(3, 1)};
  torch::nn::Sequential b_{torch::nn::BatchNorm1d(3), torch::nn::Linear(3, 1)};
  std::shared_ptr<torch::nn::Module> all_ = std::make_shared<torch::nn::Module>();
};

// Each rank has statistics of its own samples; one model is evaluated, rank 0's.
TEST(EvaluatedTask, HasTheFirstRanksBuffersInAllOfItsParts) {
  FitOptions options = small_own();
  options.strategy = "ddp";
  const train::FitData data{.train = numbers(), .test = numbers(24)};
  const auto make = test::maker<TwoNorms>();
  const test::Folder folder;
  const OwnRun two = run_own(options, 2, data, make, folder.path());
  TwoNorms saved;
  train::load_model_state(*saved.module(), two.last.model);
  saved.module()->eval();
  const torch::NoGradGuard no_grad;
  std::vector<int64_t> all(24);
  std::iota(all.begin(), all.end(), 0);
  const double expected = saved.evaluate_step(data.test->get(all), {}).loss.item<double>();
  EXPECT_NEAR(two.result.test.metrics["loss"], expected, 1e-6);
}

}  // namespace
}  // namespace muster
