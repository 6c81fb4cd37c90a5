// What it shows: two networks with an optimizer each: a small GAN that learns the points of a ring.
//     For each batch the discriminator takes a step, then the generator.
// How to run: muster run --nproc-per-node 2 -- build/bin/examples/gan --output runs/ring
// Expected output (the last digits depend on the machine):
//     test loss 0.8720, radius 1.0368
#include <torch/torch.h>

#include "muster/data.h"
#include "muster/train.h"

namespace md = muster::data;
namespace mt = muster::train;

constexpr int64_t kNoise = 4;
constexpr size_t kGenerator = 1;  // the discriminator is 0

torch::nn::Sequential layers(int64_t from, int64_t to) {
  return torch::nn::Sequential{
      torch::nn::Linear(from, 32), torch::nn::LeakyReLU(), torch::nn::Linear(32, to)};
}

struct RingGanImpl : torch::nn::Module {
  torch::nn::Sequential discriminator = register_module("discriminator", layers(2, 1));
  torch::nn::Sequential generator = register_module("generator", layers(kNoise, 2));
};
TORCH_MODULE(RingGan);

// batch: "point" // [N, 2] on the ring, "noise" // [N, kNoise]
class Ring final : public mt::Task {
 public:
  std::string name() const override { return "ring"; }
  std::shared_ptr<torch::nn::Module> module() override { return net_.ptr(); }
  std::vector<mt::TaskPart> parts() override {
    return {{"discriminator", net_->discriminator.ptr()}, {"generator", net_->generator.ptr()}};
  }
  std::vector<mt::Metric> metrics() const override { return {{.name = "radius"}}; }

  mt::StepResult train_step(const md::Batch& batch, const mt::StepContext& context) override {
    const torch::Tensor made = net_->generator->forward(batch["noise"]);
    const torch::Tensor radius = made.detach().norm(2, 1).sum();
    if (context.part == kGenerator)
      return {.loss = loss_of(made, 1), .values = {{"radius", radius, {}}}};
    return {.loss = (loss_of(batch["point"], 1) + loss_of(made.detach(), 0)) / 2};
  }
  mt::StepResult evaluate_step(const md::Batch& batch, const mt::StepContext&) override {
    const torch::Tensor made = net_->generator->forward(batch["noise"]);
    return {.loss = loss_of(made, 1), .values = {{"radius", made.norm(2, 1).sum(), {}}}};
  }

 private:
  // How far the discriminator is from taking points for real ones (1) or made ones (0).
  torch::Tensor loss_of(const torch::Tensor& points, double truth) {
    const torch::Tensor said = net_->discriminator->forward(points);
    return torch::binary_cross_entropy_with_logits(said, torch::full_like(said, truth));
  }

  RingGan net_;
};

std::shared_ptr<const md::Dataset> ring(int64_t count) {
  const torch::Tensor angle = torch::rand({count}) * 2 * M_PI;
  return std::make_shared<md::TensorDataset>(
      muster::tensor::NamedTensorList{{"point", torch::stack({angle.cos(), angle.sin()}, 1)},
                                      {"noise", torch::randn({count, kNoise})}});
}

int main(int argc, char** argv) {
  mt::TaskProgram program("ring", "A GAN whose points come to lie on a ring.");
  program.options.optimizer = "adam:beta1=0.5";
  program.options.lr = 0.004;
  program.options.epochs = 12;
  program.options.batch_size = 50;
  return program.run(argc, argv, [] {
    torch::manual_seed(0);
    const auto train = ring(2000), test = ring(400);
    return mt::TaskParts{.data = {.train = train, .validation = {}, .test = test},
                         .task = [] { return std::make_unique<Ring>(); }};
  });
}
