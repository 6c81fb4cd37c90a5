// --batch-size auto on fake devices, of which one alone runs out of memory.
#include <atomic>
#include <memory>

#include <ATen/CPUGeneratorImpl.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/data/sets/tensor_dataset.h"
#include "muster/testing/accelerator/fake_kind.h"
#include "muster/train/loop/fit.h"
#include "muster/train/loop/resolve.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/testing/accelerator/fake.h"

namespace muster::train {
namespace {

using testing::FakeAccelerator;
using ::testing::HasSubstr;
using testing::kFakeDevices;

constexpr int64_t kMost = 6;  // samples that the second device has room for

[[noreturn]] void run_out() {
  TORCH_CHECK_WITH(OutOfMemoryError, false, "fake out of memory. Tried to allocate 1.00 KiB.");
  std::abort();
}

/// Says what a batch weighs by itself, where no guard looks, and knows on which device.
class WeighedTask : public Task {
 public:
  std::shared_ptr<torch::nn::Module> module() override { return net_.ptr(); }
  void move_to(c10::Device device) override {
    Task::move_to(device);
    device_ = device;
  }
  bool has_own_weights() const override { return true; }
  StepResult train_step(const data::Batch& batch, const StepContext&) override {
    return {torch::mse_loss(net_->forward(batch["x"]).squeeze(1), batch["y"])};
  }

 protected:
  bool is_on_second() const { return device_ == test::kFake1; }

 private:
  torch::nn::Linear net_{3, 1};
  c10::Device device_ = c10::kCPU;
};

/// Memory runs out on the second device when a batch comes there, while the other rank waits for its
/// weight: no guard sees either.
class TooMuch final : public WeighedTask {
 public:
  explicit TooMuch(std::atomic<int>& too_large) : too_large_(too_large) {}
  std::string name() const override { return "too much"; }
  double weight(const data::Batch& batch) const override {
    if (is_on_second() && batch.size() > kMost) {
      ++too_large_;
      run_out();
    }
    return static_cast<double>(batch.size());
  }

 private:
  std::atomic<int>& too_large_;
};

FitOptions searching(const std::string& strategy) {
  FitOptions options;
  options.epochs = 1;
  options.max_steps = 2;
  options.batch_size.take_word("auto");
  options.eval_batch_size = 4;
  options.workers = 0;
  options.on_oom = "split";
  options.strategy = strategy;
  options.device = "fake";
  options.devices = "2";
  return options;
}

int64_t found_batch(FitOptions options, const TaskMaker& make, const test::Folder& folder) {
  const at::Generator generator = at::detail::createCPUGenerator(5);
  const at::Tensor x = torch::rand({40, 3}, generator);
  const auto rows = std::make_shared<data::TensorDataset>(
      tensor::NamedTensorList{{"x", x}, {"y", x.sum(1).sin()}});
  const FitData data{.train = rows, .validation = rows, .test = rows};
  FitPlan plan;
  static_cast<FitNumbers&>(plan) =
      resolve_fit(options,
                  {.cores = 4, .intraop_threads = 1, .local_rank = 0, .kinds = {kFakeDevices}},
                  data.facts(),
                  {});
  plan.options = options;
  plan.record = to_json(options, plan);
  const FitResult result =
      fit_on_threads({.task = make, .data = data, .plan = plan, .output = folder.path()});
  return read_checkpoint(result.checkpoint).global_batch;
}

TEST(BatchSearchOnFake, TakesMemoryThatRunsOutOnOneRankAnywhereForTooLargeABatch) {
  const FakeAccelerator fake({.devices = 2});
  for (const char* strategy : {"ddp", "zero2"}) {
    SCOPED_TRACE(strategy);
    std::atomic<int> too_large = 0;
    const test::Folder folder;
    const int64_t batch = found_batch(
        searching(strategy), [&] { return std::make_unique<TooMuch>(too_large); }, folder);
    EXPECT_GT(too_large, 0) << "the search has tried what does not fit";
    EXPECT_GE(batch, 2);
    EXPECT_LE(batch, 2 * kMost);
  }
}

/// Fails on one rank for a reason of its own.
class Broken final : public WeighedTask {
 public:
  double weight(const data::Batch& batch) const override {
    if (is_on_second()) throw std::runtime_error("no such weight");
    return static_cast<double>(batch.size());
  }
};

TEST(BatchSearchOnFake, EndsWithAnErrorThatIsNoneOfMemory) {
  const FakeAccelerator fake({.devices = 2});
  const test::Folder folder;
  EXPECT_THAT(test::error_of([&] {
                found_batch(
                    searching("ddp"), [] { return std::make_unique<Broken>(); }, folder);
              }),
              HasSubstr("no such weight"));
}

}  // namespace
}  // namespace muster::train
