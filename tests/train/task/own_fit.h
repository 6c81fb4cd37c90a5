// fit() with small tasks of one's own, on ranks that are threads.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "muster/data/sets/tensor_dataset.h"
#include "muster/testing/run_ranks.h"
#include "muster/train/loop/fit.h"
#include "muster/train/loop/resolve.h"

namespace muster::test {

using train::Checkpoint;
using train::FitData;
using train::FitOptions;
using train::FitPlan;
using train::FitResult;
using train::Metric;
using train::read_checkpoint;
using train::StepContext;
using train::StepResult;
using train::Task;

inline constexpr int64_t kSamples = 24, kBatch = 8;

/// "x" // [24, 3], "y" // [24], "length" // [24] 0 … 5
inline std::shared_ptr<const data::Dataset> numbers(int64_t samples = kSamples) {
  const at::Generator generator = at::detail::createCPUGenerator(5);
  const at::Tensor x = torch::rand({samples, 3}, generator);
  return std::make_shared<data::TensorDataset>(tensor::NamedTensorList{
      {"x", x}, {"y", x.sum(1).sin()}, {"length", torch::arange(samples).remainder(6)}});
}

inline FitOptions small_own() {
  FitOptions options;
  options.epochs = 2;
  options.batch_size = kBatch;
  options.workers = 0;
  options.lr = 0.1;
  options.optimizer = "sgd:momentum=0";
  options.tensorboard = "off";
  return options;
}

inline FitPlan planned(FitOptions options,
                       int world,
                       const FitData& data,
                       const std::vector<Metric>& metrics) {
  FitPlan plan;
  static_cast<train::FitNumbers&>(plan) = train::resolve_fit(
      options, {.world_size = world, .local_world_size = world, .cores = 2}, data.facts(), metrics);
  plan.options = options;
  plan.record = to_json(options, plan);
  return plan;
}

using Maker = std::function<std::unique_ptr<Task>(int rank)>;

struct OwnRun {
  FitResult result;
  Checkpoint last;
};

inline OwnRun run_own(const FitOptions& options,
                      int world,
                      const FitData& data,
                      const Maker& make,
                      const std::filesystem::path& output,
                      const std::vector<Metric>& metrics = {},
                      const std::optional<std::filesystem::path>& resume = {}) {
  std::vector<FitResult> results(static_cast<size_t>(world));
  testing::run_ranks(world, [&](distributed::ProcessGroup group) {
    std::optional<Checkpoint> checkpoint;
    if (resume) checkpoint = read_checkpoint(*resume);
    results[static_cast<size_t>(group.rank())] =
        train::fit({.task = [&] { return make(group.rank()); },
                    .data = data,
                    .plan = planned(options, world, data, metrics),
                    .output = output,
                    .resume = checkpoint},
                   group);
  });
  return {results[0], read_checkpoint(results[0].checkpoint)};
}

inline const at::Tensor& weight_of(const Checkpoint& checkpoint, const std::string& name) {
  for (const auto& [key, tensor] : checkpoint.model) {
    if (key == name) return tensor;
  }
  throw std::runtime_error("no " + name);
}

/// y from x by one linear layer.
class Line : public Task {
 public:
  std::string name() const override { return "line"; }
  std::shared_ptr<torch::nn::Module> module() override { return net_.ptr(); }
  StepResult train_step(const data::Batch& batch, const StepContext&) override {
    return {torch::mse_loss(net_->forward(batch["x"]).squeeze(1), batch["y"])};
  }

 protected:
  torch::nn::Linear net_{3, 1};
};

inline Maker always(std::function<std::unique_ptr<Task>()> make) {
  return [make = std::move(make)](int) { return make(); };
}

template <class T>
Maker maker() {
  return always([] { return std::make_unique<T>(); });
}

}  // namespace muster::test
