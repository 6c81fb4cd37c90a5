// A device's assertion, told one step late as CUDA tells it, and the index that the CPU names.
#include "muster/train/loop/device_replay.h"

#include <algorithm>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/text.h"
#include "muster/testing/accelerator/fake_accelerator.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/train/task/own_fit.h"

namespace muster {
namespace {

using test::error_of;
using ::testing::HasSubstr;
using ::testing::Not;
using train::is_device_assertion;

constexpr const char* kWords =
    "CUDA error: device-side assert triggered\nCUDA kernel errors might be asynchronously reported";
constexpr int64_t kClasses = 3, kBadClass = 7;

/// What the tasks of a run on the device have seen.
struct SeenOnDevice {
  int64_t bad_step = -1;  // from 0, whose batch had the bad target
};

/// Classes of numbers. On a device a target outside ends nothing by itself: the next step that is begun
/// hears of it, as kernels do that run behind their calls.
class Classes final : public test::Task {
 public:
  explicit Classes(SeenOnDevice& seen) : seen_(seen) {}
  std::string name() const override { return "classes"; }
  std::shared_ptr<torch::nn::Module> module() override { return net_.ptr(); }
  test::StepResult train_step(const data::Batch& batch, const test::StepContext& context) override {
    const at::Tensor scores = net_->forward(batch["x"]);
    if (scores.is_cpu()) return {torch::cross_entropy_loss(scores, batch["y"])};
    if (seen_.bad_step >= 0) throw std::runtime_error(kWords);
    if (batch["y"].max().item<int64_t>() >= kClasses) {
      seen_.bad_step = context.step;
      return {scores.mean()};
    }
    return {torch::cross_entropy_loss(scores, batch["y"])};
  }

 private:
  SeenOnDevice& seen_;
  torch::nn::Linear net_{3, kClasses};
};

/// "x" // [24, 3], "y" // [24], whose `bad`th is no class.
std::shared_ptr<const data::Dataset> samples(int64_t bad) {
  const at::Tensor y = torch::arange(24).remainder(kClasses);
  if (bad >= 0) y[bad] = kBadClass;
  return std::make_shared<data::TensorDataset>(
      tensor::NamedTensorList{{"x", torch::linspace(0, 1, 72).view({24, 3})}, {"y", y}});
}

std::string error_on_fake(const train::TaskMaker& make, int64_t bad, int64_t accumulate = 1) {
  const testing::FakeAccelerator fake({.races = testing::Races::kIgnore});
  const test::Folder folder;
  test::FitOptions options = test::small_own();
  options.batch_size = 4;
  options.accumulate_grad_batches = accumulate;
  const train::FitData data{.train = samples(bad)};
  train::FitPlan plan = test::planned(options, 1, data, {});
  plan.devices = plan.machine_devices = {testing::FakeAccelerator::device(0)};
  std::string error;
  testing::run_ranks(1, [&](const distributed::ProcessGroup& group) {
    error = error_of([&] {
      train::fit({.task = make, .data = data, .plan = plan, .output = folder.path()}, group);
    });
  });
  return error;
}

TEST(DeviceReplay, NamesOperatorPlaceValueAndStep) {
  for (const int64_t bad : {0, 5, 22}) {
    SeenOnDevice seen;
    const std::string error = error_on_fake([&] { return std::make_unique<Classes>(seen); }, bad);
    EXPECT_THAT(error, HasSubstr(concat("step ", seen.bad_step + 1, " on ")));
    EXPECT_THAT(error, HasSubstr("device-side assert triggered, in cross_entropy_loss"));
    EXPECT_THAT(error, HasSubstr("target is from 0 to 2, since the input has 3 classes"));
    EXPECT_THAT(error, ::testing::ContainsRegex("target.[0-3]. = 7, 1 of 4 outside"));
    EXPECT_THAT(error, HasSubstr("the CPU says so of the same batch"));
  }
}

TEST(DeviceReplay, FindsTheBatchOfAStepOfSeveral) {
  SeenOnDevice seen;
  const std::string error = error_on_fake([&] { return std::make_unique<Classes>(seen); }, 9, 3);
  EXPECT_THAT(error, HasSubstr(concat("step ", seen.bad_step + 1, " on ")));
  EXPECT_THAT(error, HasSubstr("= 7, 1 of 4 outside"));
}

/// An assertion that no index of the data has made.
class OtherAssertion final : public test::Line {
 public:
  test::StepResult train_step(const data::Batch& batch, const test::StepContext&) override {
    const at::Tensor made = net_->forward(batch["x"]);
    if (!made.is_cpu()) throw std::runtime_error(kWords);
    return {made.mean()};
  }
};

TEST(DeviceReplay, WhereNoIndexIsOutsideTheDevicesWordsRemain) {
  const std::string error = error_on_fake([] { return std::make_unique<OtherAssertion>(); }, -1);
  EXPECT_THAT(error, HasSubstr("device-side assert triggered"));
  EXPECT_THAT(error, Not(HasSubstr("the CPU says so")));
}

/// A task that cannot be made a second time: the run's own error is told.
TEST(DeviceReplay, AReplayThatFailsIsNotHeardOf) {
  SeenOnDevice seen;
  bool is_made = false;
  const auto once = [&]() -> std::unique_ptr<test::Task> {
    if (std::exchange(is_made, true)) throw std::runtime_error("only once");
    return std::make_unique<Classes>(seen);
  };
  const std::string error = error_on_fake(once, 3);
  EXPECT_THAT(error, HasSubstr("device-side assert triggered"));
  EXPECT_THAT(error, Not(HasSubstr("only once")));
}

TEST(DeviceReplay, KnowsAnAssertionByItsWordsWhereverItIsNested) {
  const auto thrown = [](const auto& call) {
    try {
      call();
    } catch (...) {
      return std::current_exception();
    }
    return std::exception_ptr();
  };
  const auto nested = [] {
    try {
      throw std::runtime_error(kWords);
    } catch (...) {
      std::throw_with_nested(std::runtime_error("task classes, train_step"));
    }
  };
  EXPECT_TRUE(is_device_assertion(thrown([] { throw std::runtime_error(kWords); })));
  EXPECT_TRUE(is_device_assertion(thrown(nested)));
  EXPECT_FALSE(
      is_device_assertion(thrown([] { throw std::runtime_error("CUDA error: unknown"); })));
  EXPECT_FALSE(is_device_assertion(thrown([] { throw 1; })));
  EXPECT_FALSE(is_device_assertion(nullptr));
}

}  // namespace
}  // namespace muster
