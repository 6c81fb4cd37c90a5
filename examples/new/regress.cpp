// Fits a network to rows of numbers. Put your own rows into samples() and your own layers into
// Regression.
#include <torch/torch.h>

#include "muster/data.h"
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
  // The loss is a mean over the batch; of a metric the sum.
  mt::StepResult train_step(const md::Batch& batch, const mt::StepContext&) override {
    const torch::Tensor error = answer(batch) - batch["target"];
    return {.loss = error.pow(2).mean(),
            .values = {{"absolute_error", error.detach().abs().sum(), {}}}};
  }
  // The columns of `predict`.
  muster::tensor::NamedTensorList predict_step(const md::Batch& batch,
                                               const mt::StepContext&) override {
    return {{"answer", answer(batch)}};
  }

 private:
  torch::Tensor answer(const md::Batch& batch) { return net_->forward(batch["data"]).squeeze(1); }

  torch::nn::Sequential net_;
};

// A rule with some noise, always the same: rows // [1200, 8], targets // [1200], float32.
std::shared_ptr<const md::Dataset> samples() {
  torch::manual_seed(0);
  const torch::Tensor rows = torch::rand({1200, 8}) * 2 - 1;
  const torch::Tensor rule = rows.select(1, 0) * rows.select(1, 1) + 0.5 * rows.sum(1).sin();
  return std::make_shared<md::TensorDataset>(rows, rule + 0.05 * torch::randn({1200}));
}

int main(int argc, char** argv) {
  int64_t hidden = 32;
  mt::TaskProgram program("PROJECT_NAME", "Fits a network to rows of numbers.");
  program.flag("--hidden", &hidden, "units of the hidden layer");
  program.options.optimizer = "adam";
  program.options.lr = 0.01;
  program.options.epochs = 8;
  program.options.batch_size = 20;
  return program.run(argc, argv, [&] {
    const auto parts = md::random_split(samples(), {900, 100, 200}, /*seed=*/1);
    return mt::TaskParts{.data = {.train = parts[0], .validation = parts[1], .test = parts[2]},
                         .task = [hidden] { return std::make_unique<Regression>(hidden); }};
  });
}
