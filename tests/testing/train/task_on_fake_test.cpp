// fit() and place() with fake devices: what a task sees there, and the CPU's numbers.
#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/data/sets/tensor_dataset.h"
#include "muster/tensor/device/math_modes.h"
#include "muster/testing/accelerator/fake_kind.h"
#include "muster/testing/run_ranks.h"
#include "muster/train/loop/fit.h"
#include "muster/train/loop/resolve.h"
#include "muster/train/plan/placement.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/testing/accelerator/fake.h"

namespace muster::train {
namespace {

using test::refusal_of;
using testing::FakeAccelerator;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kFakeDevices;

struct TwoNetsImpl : torch::nn::Module {
  torch::nn::Linear first = register_module("first", torch::nn::Linear(3, 8));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(8, 1));
};
TORCH_MODULE(TwoNets);

/// Two optimizers, a weight of its own, a metric, random numbers, and a tensor beside the module.
class Placed final : public Task {
 public:
  explicit Placed(c10::Device expected) : expected_(expected) {}

  std::string name() const override { return "placed"; }
  std::shared_ptr<torch::nn::Module> module() override { return net_.ptr(); }
  std::vector<TaskPart> parts() override {
    return {{"first", net_->first.ptr()}, {"second", net_->second.ptr()}};
  }
  std::vector<Metric> metrics() const override {
    return {{.name = "worst", .reduce = Reduce::kMax}};
  }
  void move_to(c10::Device device) override {
    Task::move_to(device);
    scale_ = scale_.to(device);
  }
  bool has_own_weights() const override { return true; }
  double weight(const data::Batch& batch) const override {
    EXPECT_TRUE(batch["length"].is_cpu());
    return static_cast<double>(batch["length"].sum().item<int64_t>());
  }
  bool set_generator(const at::Generator& generator) override {
    EXPECT_EQ(generator.device().type(), expected_.type());
    generator_ = generator;
    return true;
  }
  StepResult train_step(const data::Batch& batch, const StepContext& context) override {
    for (const auto& [name, tensor] : batch.tensors) EXPECT_EQ(tensor.device(), expected_) << name;
    at::Tensor x = batch["x"] * scale_;
    // A CPU's numbers are another generator's: only for the test of one kind.
    if (context.phase == Phase::kTrain && noise)
      x = x + 0.1 * torch::rand(x.sizes(), generator_, x.options());
    const at::Tensor said = net_->second(net_->first(x).tanh()).squeeze(1);
    const at::Tensor error = (said - batch["y"]).abs();
    return {.loss = error.mean(), .values = {{"worst", error.detach().max(), {}}}};
  }

  bool noise = false;

 private:
  c10::Device expected_;
  TwoNets net_;
  at::Tensor scale_ = torch::tensor({1.0F, 2.0F, 0.5F});
  at::Generator generator_;
};

FitData placed_data() {
  const at::Generator generator = at::detail::createCPUGenerator(5);
  const at::Tensor x = torch::rand({40, 3}, generator);
  const auto rows = std::make_shared<data::TensorDataset>(tensor::NamedTensorList{
      {"x", x}, {"y", x.sum(1).sin()}, {"length", torch::arange(40).remainder(6) + 1}});
  return {.train = rows, .validation = rows, .test = rows};
}

FitOptions placed_options(const std::string& device, const std::string& devices = "") {
  FitOptions options;
  options.epochs = 2;
  options.batch_size = 8;
  options.workers = 0;
  options.optimizer = "adam";
  options.device = device;
  options.devices = devices;
  options.monitor = "validate_worst";
  return options;
}

struct PlacedRun {
  FitResult result;
  Checkpoint last;
};

PlacedRun placed_run(FitOptions options,
                     const test::Folder& folder,
                     bool noise = false,
                     const std::optional<Checkpoint>& resume = {}) {
  const FitData data = placed_data();
  FitPlan plan;
  static_cast<FitNumbers&>(plan) =
      resolve_fit(options,
                  {.cores = 4, .intraop_threads = 1, .local_rank = 0, .kinds = {kFakeDevices}},
                  data.facts(),
                  {{.name = "worst", .reduce = Reduce::kMax, .wants_less = true}});
  plan.options = options;
  plan.record = to_json(options, plan);
  const TaskMaker make = [&] {
    // Ranks that are threads make theirs one after the other, in any order, on one device here.
    auto task = std::make_unique<Placed>(plan.devices[0]);
    task->noise = noise;
    return task;
  };
  PlacedRun run;
  const FitRequest request{
      .task = make, .data = data, .plan = plan, .output = folder.path(), .resume = resume};
  if (plan.threads > 0) {
    run.result = fit_on_threads(request);
  } else {
    testing::run_ranks(1,
                       [&](distributed::ProcessGroup group) { run.result = fit(request, group); });
  }
  run.last = read_checkpoint(run.result.checkpoint);
  return run;
}

void expect_same_bits(const PlacedRun& a, const PlacedRun& b) {
  for (const auto part : {&Checkpoint::model, &Checkpoint::optimizer}) {
    ASSERT_EQ((a.last.*part).size(), (b.last.*part).size());
    for (size_t i = 0; i < (a.last.*part).size(); ++i) {
      EXPECT_TRUE((a.last.*part)[i].second.is_cpu());
      EXPECT_TRUE(test::same_bits((a.last.*part)[i].second, (b.last.*part)[i].second))
          << (a.last.*part)[i].first;
    }
  }
  EXPECT_EQ(a.result.test.metrics.items(), b.result.test.metrics.items());
}

TEST(FitOnFake, GivesATaskItsDeviceAndEndsWithTheBitsOfTheCpu) {
  const FakeAccelerator fake({.devices = 2, .poison = true});
  const test::Folder cpu, there;
  const int64_t before = fake.operators(1);
  expect_same_bits(placed_run(placed_options("fake:1"), there),
                   placed_run(placed_options("cpu"), cpu));
  EXPECT_GT(fake.operators(1) - before, 100);
  EXPECT_EQ(fake.operators(0), 0);
}

// Both backwards are on their rank's own thread, else they would wait for each other for ever.
TEST(FitOnFake, TrainsTwoRanksOnOneDevice) {
  const FakeAccelerator fake({.poison = true});
  const test::Folder cpu, there;
  expect_same_bits(placed_run(placed_options("fake:0", "2"), there),
                   placed_run(placed_options("cpu", "2"), cpu));
}

TEST(FitOnFake, GoesOnWithTheRandomNumbersOfItsOwnKind) {
  const FakeAccelerator fake({.devices = 2, .poison = true});
  const test::Folder whole, parts;
  const PlacedRun unbroken = placed_run(placed_options("fake:0"), whole, /*noise=*/true);
  FitOptions first = placed_options("fake:0");
  first.max_steps = 4;
  const PlacedRun broken = placed_run(first, parts, true);
  EXPECT_EQ(broken.last.loop.at("device"), "fake");
  expect_same_bits(placed_run(placed_options("fake:1"), parts, true, broken.last), unbroken);
}

TEST(FitOnFake, GivesBackAllMemoryOfItsDevice) {
  const FakeAccelerator fake;
  const test::Folder folder;
  placed_run(placed_options("fake:0"), folder);
  EXPECT_EQ(fake.memory(0).live, 0);
}

TEST(FitOnFake, EndsAtAnyAllocationThatFailsInWordsOfItsOwn) {
  FakeAccelerator fake;
  const test::Folder counted;
  const int64_t before = fake.memory(0).allocations;
  placed_run(placed_options("fake:0"), counted);
  const int64_t all = fake.memory(0).allocations - before;
  for (const int64_t nth : {int64_t{1}, int64_t{3}, all / 4, all / 2, all - 5}) {
    const test::Folder folder;
    fake.fail_allocation(0, nth, /*all_after=*/true);
    EXPECT_THAT(test::error_of([&] { placed_run(placed_options("fake:0"), folder); }),
                HasSubstr("fake:0 is out of memory "))
        << nth << " of " << all;
    fake.fail_allocation(0, 0);
    EXPECT_EQ(fake.memory(0).live, 0) << nth;
  }
}

Placement placed(const std::string& device,
                 const std::string& devices,
                 int64_t threads,
                 int64_t local_rank = 0,
                 int64_t local_world_size = 1,
                 const tensor::DeviceKinds& kinds = {kFakeDevices}) {
  return place({.device = device,
                .devices = devices,
                .threads = threads,
                .local_rank = local_rank,
                .local_world_size = local_world_size,
                .kinds = kinds});
}

TEST(Place, DealsDevicesToThreadsAndProcesses) {
  const FakeAccelerator fake({.devices = 3});
  EXPECT_EQ(names_of(placed("fake", "", 0, 2, 3).devices), "fake:2");
  EXPECT_EQ(names_of(placed("fake", "2,0,1", 0, 1, 3).devices), "fake:0");
  EXPECT_EQ(names_of(placed("fake", "2", 2).devices), "fake:0, fake:1");
  EXPECT_EQ(names_of(placed("fake", "2,0", 2).devices), "fake:2, fake:0");
  EXPECT_EQ(placed("fake:1", "2", 2).devices.size(), 2u);
  EXPECT_EQ(names_of(placed("fake:1", "2", 2).devices), "fake:1");
  EXPECT_THAT(placed("fake", "2,0", 2).remarks, IsEmpty());
  EXPECT_THAT(placed("fake", "1,1", 2).remarks.at(0),
              HasSubstr("2 ranks of this machine share fake:1"));
  EXPECT_THAT(refusal_of([] { placed("fake", "0,1", 0, 0, 3); }),
              HasSubstr("one device for each of the 3 ranks here (got 2 devices)"));
  EXPECT_THAT(refusal_of([] { placed("fake", "", 0, 0, 4); }), HasSubstr("4 ranks, 3 devices"));
}

TEST(Place, AutoTakesAKindThatHasADeviceForEachRank) {
  const FakeAccelerator fake({.devices = 2});
  const tensor::DeviceKinds kinds{
      {.name = "none",
       .type = c10::DeviceType::XPU,
       .open = +[] { return std::string("it is not plugged in"); },
       .is_automatic = true},
      {.name = "fake", .type = kFakeDevices.type, .open = kFakeDevices.open, .is_automatic = true}};
  const Placement one = placed("auto", "", 0, 1, 2, kinds);
  EXPECT_EQ(names_of(one.devices), "fake:1");
  EXPECT_EQ(one.why, "auto; not none: it is not plugged in");
  const Placement many = placed("auto", "3", 3, 0, 1, kinds);
  EXPECT_EQ(names_of(many.devices), "cpu");
  EXPECT_EQ(many.devices.size(), 3u);
  EXPECT_THAT(many.remarks.at(0), HasSubstr("not on fake, 3 ranks, and 2 of them"));
  EXPECT_THAT(placed("auto", "", 0).why, "auto") << "what is not automatic is not opened";
  EXPECT_THAT(test::error_of([&] { placed("none:0", "", 0, 0, 1, kinds); }),
              HasSubstr("--device none:0: it is not plugged in"));
}

TEST(MathModes, ArePutBack) {
  const tensor::MathModes before = tensor::math_modes();
  {
    const tensor::MathModesGuard guard({.deterministic = true, .float32_matmul_precision = "high"});
    EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
    EXPECT_EQ(at::globalContext().float32MatmulPrecision(), at::Float32MatmulPrecision::HIGH);
  }
  EXPECT_EQ(tensor::math_modes(), before);
}

}  // namespace
}  // namespace muster::train
