// Tells points of three classes apart. Put your own rows into samples() and your own layers into
// Net.
#include <torch/torch.h>

#include "muster/data.h"
#include "muster/models.h"
#include "muster/train.h"

namespace md = muster::data;
namespace mt = muster::train;

// 2 numbers to the scores of 3 classes.
class Net final : public muster::models::Classifier {
 public:
  explicit Net(int64_t hidden)
      : layers_{torch::nn::Linear(2, hidden),
                torch::nn::ReLU(),
                torch::nn::Linear(hidden, hidden),
                torch::nn::ReLU(),
                torch::nn::Linear(hidden, 3)} {
    register_module("layers", layers_);
  }
  torch::Tensor forward(torch::Tensor rows) override { return layers_->forward(rows); }

 private:
  torch::nn::Sequential layers_;
};

// Three arms of a spiral, always the same: rows // [1200, 2] float32, classes // [1200] int64.
std::shared_ptr<const md::Dataset> samples() {
  torch::manual_seed(0);
  const torch::Tensor arm = torch::arange(1200).remainder(3);
  const torch::Tensor radius = torch::rand({1200});
  const torch::Tensor angle = 4 * radius + 2.0944 * arm + 0.2 * torch::randn({1200});
  const torch::Tensor rows = torch::stack({radius * angle.cos(), radius * angle.sin()}, 1);
  return std::make_shared<md::TensorDataset>(rows, arm, /*classes=*/3);
}

int main(int argc, char** argv) {
  int64_t hidden = 32;
  mt::TaskProgram program("PROJECT_NAME", "Tells points of three classes apart.");
  program.flag("--hidden", &hidden, "units of a hidden layer");
  program.options.optimizer = "adam";
  program.options.lr = 0.01;
  program.options.epochs = 8;
  program.options.batch_size = 32;
  program.options.monitor = "validate_accuracy";
  return program.run(argc, argv, [&] {
    const auto parts = md::random_split(samples(), {900, 100, 200}, /*seed=*/1);
    return mt::TaskParts{.data = {.train = parts[0], .validation = parts[1], .test = parts[2]},
                         .task = [hidden] {
                           return std::make_unique<mt::ClassifierTask>(
                               std::make_shared<Net>(hidden), mt::ClassifierOptions{});
                         }};
  });
}
