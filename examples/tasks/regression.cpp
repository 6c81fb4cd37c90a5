// What it shows: a task of your own: a module, a loss and a metric, on rows of numbers as they come
//     from a CSV file. Flags, ranks, precision, schedules, checkpoints, resume, curves: as in
//     `muster train`; see docs/own-task.md.
// How to run: muster run --nproc-per-node 2 -- build/bin/examples/regression --output runs/rows
// Expected output (the last digits depend on the machine):
//     test loss 0.0154, absolute_error 0.0960
#include <torch/torch.h>

#include "muster/data.h"
#include "muster/testing.h"
#include "muster/train.h"

namespace md = muster::data;
namespace mt = muster::train;

// 8 numbers to one.
class Regression final : public mt::Task {
 public:
  explicit Regression(int64_t hidden)
      : net_{torch::nn::Linear(8, hidden), torch::nn::Tanh(), torch::nn::Linear(hidden, 1)} {}

  std::string name() const override { return "regression"; }
  std::shared_ptr<torch::nn::Module> module() override { return net_.ptr(); }
  std::vector<mt::Metric> metrics() const override {
    return {{.name = "absolute_error", .wants_less = true}};
  }
  mt::StepResult train_step(const md::Batch& batch, const mt::StepContext&) override {
    const torch::Tensor error = net_->forward(batch["data"]).squeeze(1) - batch["target"];
    return {.loss = error.pow(2).mean(),
            .values = {{"absolute_error", error.detach().abs().sum(), {}}}};
  }
  muster::tensor::NamedTensorList predict_step(const md::Batch& batch,
                                               const mt::StepContext&) override {
    return {{"y", net_->forward(batch["data"]).squeeze(1)}};
  }

 private:
  torch::nn::Sequential net_;
};

// Rows with a rule and some noise, always the same.
std::shared_ptr<const md::Dataset> rows() {
  torch::manual_seed(0);
  const torch::Tensor x = torch::rand({1200, 8}) * 2 - 1;
  const torch::Tensor y = x.select(1, 0) * x.select(1, 1) + 0.5 * x.sum(1).sin();
  return std::make_shared<md::TensorDataset>(x, y + 0.05 * torch::randn({1200}));
}

int main(int argc, char** argv) {
  int64_t hidden = 32;
  mt::TaskProgram program("regression", "Fits a network to rows of numbers.");
  program.devices.push_back(muster::testing::kFakeDevices);  // --device fake:0
  program.flag("--hidden", &hidden, "units of the hidden layer");
  program.options.optimizer = "adam";
  program.options.lr = 0.01;
  program.options.epochs = 8;
  program.options.batch_size = 20;
  return program.run(argc, argv, [&] {
    const auto parts = md::random_split(rows(), {900, 100, 200}, /*seed=*/1);
    return mt::TaskParts{.data = {.train = parts[0], .validation = parts[1], .test = parts[2]},
                         .task = [hidden] { return std::make_unique<Regression>(hidden); }};
  });
}
