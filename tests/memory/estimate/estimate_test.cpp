// What an estimate counts, whose the bytes are, and what it refuses.
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/memory/allocator/cpu_memory.h"

#include "tests/memory/estimate/zoo_step.h"
#include "tests/support/error_of.h"
#include "tests/testing/accelerator/fake.h"

namespace muster::memory {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct OneLayer : torch::nn::Module {
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(100, 50));
};

/// Of a layer of 100 to 50 on meta, which is given `batch` rows.
MetaStep one_layer(int64_t batch, const std::function<void(const at::Tensor& scores)>& then) {
  const auto net = std::make_shared<OneLayer>();
  move_to_meta(*net);
  const at::Tensor x = at::empty({batch, 100}, at::kMeta);
  return {.module = net, .run = [=] { then(net->layer(x)); }, .inputs = {x}};
}

constexpr int64_t kLayerBytes = 4 * (100 * 50 + 50);

TEST(Estimate, CountsToTheByteWhatAFormulaSays) {
  const PeakEstimate found = estimate_peak(
      [] { return one_layer(64, [](const at::Tensor& scores) { scores.sum().backward(); }); });
  // In the second step's backward: weights, the batch, the first gradients, which are added to, the
  // new one of the weights, and the scores' gradient, which is one number. Scores are gone by then.
  EXPECT_EQ(found.of(Owner::kParameter), kLayerBytes);
  EXPECT_EQ(found.of(Owner::kInput), 4 * 64 * 100);
  EXPECT_GE(found.of(Owner::kGradient), kLayerBytes + 4 * 100 * 50);
  int64_t sum = 0;
  for (const int64_t bytes : found.at_peak) sum += bytes;
  EXPECT_EQ(sum, found.peak);
  EXPECT_GE(found.device_peak, found.peak);
  EXPECT_GE(found.device_reserved, found.device_peak);
}

struct OddConvolution : torch::nn::Module {
  OddConvolution(int64_t channels, int64_t stride) : steps(stride) {
    weights = register_parameter("weights", torch::rand({channels, 3, 3, 3}));
  }
  at::Tensor weights;
  int64_t steps;
};

/// Of a convolution that no CPU runs, or runs to nothing.
PeakEstimate odd_convolution(int64_t channels, int64_t stride) {
  return estimate_peak([=] {
    const auto net = std::make_shared<OddConvolution>(channels, stride);
    move_to_meta(*net);
    const at::Tensor x = at::empty({2, 3, 8, 8}, at::kMeta);
    return MetaStep{.module = net,
                    .run =
                        [=] {
                          const std::vector<int64_t> stride(2, net->steps);
                          at::conv2d(x, net->weights, {}, stride).sum().backward();
                        },
                    .inputs = {x}};
  });
}

TEST(Estimate, DividesByNoChannelsAndNoStride) {
  EXPECT_THROW(odd_convolution(4, 0), NotOnMeta);
  EXPECT_GT(odd_convolution(0, 1).storages, 0);
}

TEST(Estimate, HoldsNothingWhateverTheBatch) {
  const Recording recording(Level::kCounters);
  reset_cpu_peak();
  const int64_t before = cpu_counters().current;
  constexpr int64_t kRows = int64_t{1} << 32;
  const PeakEstimate found = estimate_peak([] {
    return one_layer(kRows, [](const at::Tensor& scores) { scores.relu().sum().backward(); });
  });
  EXPECT_GT(found.peak, kRows * 4 * 100);
  EXPECT_LT(cpu_counters().peak - before, 1 << 20);
}

TEST(Estimate, TellsOwnersOfAModelWithAdamApart) {
  const test::ZooCase mlp{.model = "mlp", .shape = {}, .batch = 64, .optimizer = "adam"};
  const PeakEstimate found = test::estimate_of(mlp);
  EXPECT_EQ(found.of(Owner::kInput), 64 * (28 * 28 * 4 + 8));
  EXPECT_GE(found.of(Owner::kOptimizerState), 2 * found.of(Owner::kParameter));
  EXPECT_GT(found.of(Owner::kGradient), 0);
  EXPECT_GT(found.storages, 20);
  EXPECT_THAT(text_of(found), HasSubstr("MiB (parameters "));
  EXPECT_THAT(text_of(found), HasSubstr("estimated on meta; within "));
  PeakEstimate sized{.peak = 10 << 20};
  EXPECT_THAT(text_of(sized), HasSubstr("; within 10 %"));
  sized.peak = 20 << 10;
  EXPECT_THAT(text_of(sized), HasSubstr("; within 0.25 MiB")) << "1250 % of it";
}

TEST(Estimate, NamesTheOperatorThatNeedsElements) {
  const auto refused = [](const std::function<void(const at::Tensor&)>& then) {
    return test::muster_error_of([&] { estimate_peak([&] { return one_layer(4, then); }); });
  };
  const Error item = refused([](const at::Tensor& scores) { scores.sum().item<float>(); });
  EXPECT_EQ(item.kind(), ErrorKind::kUsage);
  EXPECT_THAT(item.what(), HasSubstr("aten::_local_scalar_dense"));
  EXPECT_THAT(item.what(), HasSubstr("--batch-size auto"));
  EXPECT_THAT(refused([](const at::Tensor& scores) { scores.nonzero(); }).what(),
              HasSubstr("aten::nonzero"));
  EXPECT_THAT(refused([](const at::Tensor& scores) { scores.cpu(); }).what(),
              HasSubstr("aten::copy_"));
  // Afterwards the thread may make another one.
  EXPECT_GT(estimate_peak([] { return one_layer(4, [](const at::Tensor&) {}); }).peak, 0);
}

TEST(Estimate, RefusesAModuleThatIsNotOnMeta) {
  const Error error = test::muster_error_of([] {
    estimate_peak([] { return MetaStep{.module = std::make_shared<OneLayer>(), .run = [] {}}; });
  });
  EXPECT_THAT(error.what(), HasSubstr("parameter layer.weight"));
  EXPECT_THAT(error.what(), HasSubstr("move_to_meta"));
  EXPECT_EQ(test::muster_error_of([] { estimate_peak([] { return MetaStep(); }); }).kind(),
            ErrorKind::kUsage);
  EXPECT_EQ(
      test::muster_error_of([] { estimate_peak([] { return MetaStep(); }, {.steps = 0}); }).kind(),
      ErrorKind::kUsage);
}

TEST(Estimate, LetsErrorsOfTheStepPass) {
  EXPECT_THROW(estimate_peak([] {
                 return one_layer(4, [](const at::Tensor&) { throw std::logic_error("mine"); });
               }),
               std::logic_error);
  const Error inner = test::muster_error_of([] {
    estimate_peak([] {
      estimate_peak([] { return MetaStep(); });
      return MetaStep();
    });
  });
  EXPECT_THAT(inner.what(), HasSubstr("a thread makes one at a time"));
}

TEST(Estimate, RunsInSeveralThreadsAtOnce) {
  const auto peak = [](int64_t batch) {
    return estimate_peak([batch] {
             return one_layer(batch, [](const at::Tensor& y) { y.relu().sum().backward(); });
           })
        .peak;
  };
  const int64_t small = peak(10), large = peak(1000);
  std::vector<std::thread> threads;
  std::vector<int64_t> found(4);
  for (size_t i = 0; i < found.size(); ++i)
    threads.emplace_back([&, i] { found[i] = peak(i % 2 == 0 ? 10 : 1000); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(found, (std::vector<int64_t>{small, large, small, large}));
}

TEST(Estimate, KnowsScratchOfConvolutionsOfTheCpuAlone) {
  const test::ZooCase cnn{.model = "cnn", .shape = {}, .batch = 16};
  const auto make = [&] {
    const auto step = std::make_shared<test::ZooStep>(cnn, at::kMeta);
    return MetaStep{.module = step->model(), .run = [step] { step->run(); }};
  };
  const PeakEstimate with = estimate_peak(make),
                     without = estimate_peak(make, {.cpu_scratch = false});
  EXPECT_GE(with.peak, without.peak);
  EXPECT_THAT(without.unseen_workspaces, ::testing::ElementsAre("aten::convolution"));
  EXPECT_THAT(with.unseen_workspaces, IsEmpty());
  EXPECT_THAT(text_of(without), HasSubstr("without the device's workspaces for aten::convolution"));
}

TEST(MoveToMeta, KeepsWhatIsShared) {
  struct Tied : torch::nn::Module {
    at::Tensor one = register_parameter("one", at::zeros({6}));
    at::Tensor same = register_parameter("same", one);
    at::Tensor view = register_buffer("view", at::zeros({10}).narrow(0, 2, 3));
  } tied;
  tied.one.mutable_grad() = at::zeros({6});
  move_to_meta(tied);
  EXPECT_TRUE(tied.one.is_meta());
  EXPECT_TRUE(tied.one.requires_grad());
  EXPECT_FALSE(tied.one.grad().defined());
  EXPECT_EQ(tied.one.unsafeGetTensorImpl(), tied.same.unsafeGetTensorImpl());
  EXPECT_TRUE(tied.view.is_meta());
  EXPECT_EQ(tied.view.storage().nbytes(), 40U);
  EXPECT_EQ(tied.view.storage_offset(), 2);
}

}  // namespace
}  // namespace muster::memory
