// What it shows: the module of one_device.cpp as a task: the loop, the ranks and the files are
//     Muster's; see docs/own-task.md.
// How to run: muster run --nproc-per-node 2 -- build/bin/examples/own_module --output runs/net
// Expected output (the last digits depend on the machine):
//     test loss 0.3970, accuracy 0.8565
#include <torch/torch.h>

#include "muster/data.h"
#include "muster/testing.h"
#include "muster/train.h"

namespace md = muster::data;
namespace mt = muster::train;

// Two linear layers.
struct NetImpl : torch::nn::Module {
  // images // [N, 784] float32  ->  scores // [N, 10] float32
  torch::Tensor forward(const torch::Tensor& images) {
    return fc2->forward(torch::relu(fc1->forward(images)));
  }

  torch::nn::Linear fc1 = register_module("fc1", torch::nn::Linear(784, 128));
  torch::nn::Linear fc2 = register_module("fc2", torch::nn::Linear(128, 10));
};
TORCH_MODULE(Net);

class Clothes final : public mt::Task {
 public:
  std::string name() const override { return "clothes"; }
  std::shared_ptr<torch::nn::Module> module() override { return net_.ptr(); }
  std::vector<mt::Metric> metrics() const override { return {{.name = "accuracy"}}; }
  mt::StepResult train_step(const md::Batch& batch, const mt::StepContext&) override {
    const torch::Tensor scores = net_->forward(batch["data"].flatten(1));
    return {.loss = torch::nn::functional::cross_entropy(scores, batch["target"]),
            .values = {{"accuracy", scores.argmax(1).eq(batch["target"]).sum(), {}}}};
  }

 private:
  Net net_;
};

int main(int argc, char** argv) {
  mt::TaskProgram program("clothes", "Trains a module of its own on Fashion-MNIST.");
  program.devices.push_back(muster::testing::kFakeDevices);  // --device fake:0
  program.options.optimizer = "sgd:momentum=0.9";
  program.options.lr = 0.01;
  program.options.batch_size = 100;
  program.options.epochs = 2;
  program.options.monitor = "validate_accuracy";
  return program.run(argc, argv, [] {
    const mt::TrainData data = mt::open_data("fashion-mnist", {});
    const auto parts = md::random_split(data.train, {55000, 5000}, /*seed=*/7);
    return mt::TaskParts{.data = {.train = parts[0], .validation = parts[1], .test = data.test},
                         .task = [] { return std::make_unique<Clothes>(); },
                         .hooks = {.step_ended = [](const mt::StepEnd& end) {
                           if (end.metrics["loss"] > 100)
                             throw std::runtime_error("the loss has left the valley");
                         }}};
  });
}
