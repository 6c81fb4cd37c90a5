// A task with its own module, loss and random numbers: a network that takes noise off rows. Make of
// it what you train: docs/own-task.md says all that a task may have.
#include <torch/torch.h>

#include "muster/data.h"
#include "muster/train.h"

namespace md = muster::data;
namespace mt = muster::train;

// 16 numbers through a few and back.
struct Net : torch::nn::Module {
  explicit Net(int64_t hidden)
      : encode(register_module("encode", torch::nn::Linear(16, hidden))),
        decode(register_module("decode", torch::nn::Linear(hidden, 16))) {}
  torch::Tensor forward(const torch::Tensor& rows) { return decode(encode(rows).tanh()); }

  torch::nn::Linear encode, decode;
};

class Denoising final : public mt::Task {
 public:
  explicit Denoising(int64_t hidden) : net_(std::make_shared<Net>(hidden)) {}

  std::string name() const override { return "denoising"; }
  std::shared_ptr<torch::nn::Module> module() override { return net_; }
  std::vector<mt::Metric> metrics() const override {
    return {{.name = "worst", .reduce = mt::Reduce::kMax, .wants_less = true}};
  }
  mt::StepResult train_step(const md::Batch& batch, const mt::StepContext& context) override {
    const torch::Tensor rows = batch["data"];
    torch::Tensor noisy = rows;
    if (context.phase == mt::Phase::kTrain)
      noisy = rows + 0.3 * torch::randn(rows.sizes(), generator_, rows.options());
    const torch::Tensor error = (net_->forward(noisy) - rows).pow(2).mean(1);
    return {.loss = error.mean(), .values = {{"worst", error.detach().max(), {}}}};
  }
  // The columns of `predict`.
  muster::tensor::NamedTensorList predict_step(const md::Batch& batch,
                                               const mt::StepContext&) override {
    return {{"row", net_->forward(batch["data"])}};
  }
  // Each rank has random numbers of its own, which a resumed run goes on with.
  bool set_generator(const torch::Generator& generator) override {
    generator_ = generator;
    return true;
  }

 private:
  std::shared_ptr<Net> net_;
  torch::Generator generator_;
};

// Rows of 16 numbers that 4 numbers decide, always the same // [1200, 16] float32.
std::shared_ptr<const md::Dataset> samples() {
  torch::manual_seed(0);
  const torch::Tensor rows = torch::matmul(torch::randn({1200, 4}), torch::randn({4, 16})) / 4;
  return std::make_shared<md::TensorDataset>(muster::tensor::NamedTensorList{{"data", rows}});
}

int main(int argc, char** argv) {
  int64_t hidden = 12;
  mt::TaskProgram program("PROJECT_NAME", "Takes noise off rows of numbers.");
  program.flag("--hidden", &hidden, "numbers in the middle");
  program.options.optimizer = "adam";
  program.options.lr = 0.01;
  program.options.epochs = 8;
  program.options.batch_size = 20;
  return program.run(argc, argv, [&] {
    const auto parts = md::random_split(samples(), {900, 100, 200}, /*seed=*/1);
    return mt::TaskParts{.data = {.train = parts[0], .validation = parts[1], .test = parts[2]},
                         .task = [hidden] { return std::make_unique<Denoising>(hidden); }};
  });
}
