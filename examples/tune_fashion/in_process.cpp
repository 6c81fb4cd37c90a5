// What it shows: the classic example of hyperparameter tuning, by the C++ API: a network for
//     Fashion-MNIST, its width l1, learning rate and batch size searched with ASHA. Trials are
//     calls of a function, on threads of this process.
// How to run: build/bin/examples/tune_fashion
// Expected output:
//     12 trials, each up to 8 epochs of 2,000 images
//     stopped early: more than half
//     best accuracy: above 0.75
#include <cmath>
#include <cstdio>
#include <memory>

#include <ATen/Parallel.h>
#include <torch/nn/functional/loss.h>
#include <torch/optim/sgd.h>

#include "muster/data.h"
#include "muster/models.h"
#include "muster/tune.h"

namespace data = muster::data;
namespace tune = muster::tune;
using Images = std::shared_ptr<const data::Dataset>;

constexpr int64_t kEpochs = 8;

double accuracy(muster::models::Classifier& model, const Images& images) {
  const torch::NoGradGuard no_grad;
  data::Loader loader(images, {.batch_size = 500});
  int64_t right = 0;
  for (const data::Batch& batch : loader.epoch(0))
    right += model.forward(batch["data"]).argmax(1).eq(batch["target"]).sum().item<int64_t>();
  return static_cast<double>(right) / static_cast<double>(images->size());
}

// One trial: what one would write without a tuner, and a report after each epoch.
void train(tune::TrialHandle& trial, const Images& train_images, const Images& test_images) {
  torch::manual_seed(0);
  const auto model = muster::models::make_model(
      "mlp",
      {.channels = 1, .height = 28, .width = 28, .classes = 10},
      {{"hidden", tune::value_text(trial.config["l1"])}, {"layers", "1"}});
  torch::optim::SGD optimizer(model->parameters(), trial.config["lr"].as_double());
  data::Loader loader(train_images,
                      {.batch_size = trial.config["batch_size"].as_int()},
                      std::make_unique<data::RandomSampler>(train_images->size()));
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    for (const data::Batch& batch : loader.epoch(epoch)) {
      optimizer.zero_grad();
      torch::nn::functional::cross_entropy(model->forward(batch["data"]), batch["target"])
          .backward();
      optimizer.step();
    }
    if (trial.report({{"accuracy", accuracy(*model, test_images)}}) != tune::Action::kContinue)
      return;
  }
}

int main() {
  at::set_num_threads(1);
  const auto open = [](data::Split split, int64_t samples) {
    const Images all = data::datasets().at("fashion-mnist").open({.split = split});
    return std::make_shared<data::SubsetDataset>(all, 0, samples);
  };
  const Images train_images = open(data::Split::kTrain, 2000);
  const Images test_images = open(data::Split::kTest, 1000);

  const tune::RunResult result = tune::run(
      [&](tune::TrialHandle& trial) { train(trial, train_images, test_images); },
      {.config = {{"l1", tune::sample_from("2 ** randint(4, 9)")},
                  {"lr", tune::loguniform(1e-3, 1e-1)},
                  {"batch_size", tune::choice({8, 16, 32, 64})}},
       .metric = "accuracy",
       .mode = "max",
       .num_samples = 12,
       .scheduler = tune::asha({.max_t = kEpochs, .grace_period = 1, .reduction_factor = 2}),
       .max_concurrent_trials = 1,
       .seed = 1});

  size_t stopped = 0;
  for (const tune::Trial& trial : result.trials)
    stopped += trial.state == tune::TrialState::kPruned ? 1 : 0;
  const double best = result.best_trial().last_metric;
  std::printf("%zu trials, each up to %ld epochs of 2,000 images\n", result.trials.size(), kEpochs);
  std::printf("stopped early: %s\n", 2 * stopped > result.trials.size() ? "more than half" : "few");
  std::printf("best accuracy: %s\n", best > 0.75 ? "above 0.75" : "0.75 or less");
}
