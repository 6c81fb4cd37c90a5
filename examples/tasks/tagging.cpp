// What it shows: sequences of unlike lengths. A network says of each token whether it has been seen
//     before in its sequence. Batches are padded; padding counts nothing: the loss of a step is the
//     mean over the tokens of all ranks, whoever has how many.
// How to run: muster run --nproc-per-node 2 -- build/bin/examples/tagging --output runs/tags
// Expected output (the last digits depend on the machine):
//     test loss 0.3503, accuracy 0.8286
#include <torch/torch.h>

#include "muster/data.h"
#include "muster/testing.h"
#include "muster/train.h"

namespace md = muster::data;
namespace mt = muster::train;

constexpr int64_t kTokens = 12, kLongest = 16;

struct TaggerImpl : torch::nn::Module {
  // tokens // [N, T] int64  ->  scores // [N, T]
  torch::Tensor forward(const torch::Tensor& tokens) {
    return out->forward(std::get<0>(lstm->forward(embedding->forward(tokens)))).squeeze(2);
  }
  torch::nn::Embedding embedding = register_module("embedding", torch::nn::Embedding(kTokens, 16));
  torch::nn::LSTM lstm =
      register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(16, 48).batch_first(true)));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(48, 1));
};
TORCH_MODULE(Tagger);

class Tagging final : public mt::Task {
 public:
  std::string name() const override { return "tagging"; }
  std::shared_ptr<torch::nn::Module> module() override { return net_.ptr(); }
  std::vector<mt::Metric> metrics() const override { return {{.name = "accuracy"}}; }
  bool has_own_weights() const override { return true; }
  double weight(const md::Batch& batch) const override {
    return static_cast<double>(batch["length"].sum().item<int64_t>());
  }

  mt::StepResult train_step(const md::Batch& batch, const mt::StepContext&) override {
    const torch::Tensor& target = batch["target"];
    const torch::Tensor mask =
        torch::arange(target.size(1), target.device()) < batch["length"].unsqueeze(1);
    const torch::Tensor said = net_->forward(batch["tokens"]).masked_select(mask);
    const torch::Tensor truth = target.masked_select(mask);
    const torch::Tensor right = said.detach().gt(0).eq(truth.gt(0.5)).sum();
    return {.loss = torch::binary_cross_entropy_with_logits(said, truth),
            .values = {{"accuracy", right, {}}}};
  }

 private:
  Tagger net_;
};

// Tokens padded with 0 to the longest; 1 where one comes again.
std::shared_ptr<const md::Dataset> sequences(int64_t count) {
  const torch::Tensor length = torch::randint(3, kLongest + 1, {count}, torch::kLong);
  torch::Tensor tokens = torch::randint(1, kTokens, {count, kLongest}, torch::kLong);
  tokens *= torch::arange(kLongest) < length.unsqueeze(1);
  const torch::Tensor same = tokens.unsqueeze(2).eq(tokens.unsqueeze(1)).tril(-1);
  return std::make_shared<md::TensorDataset>(muster::tensor::NamedTensorList{
      {"tokens", tokens}, {"target", same.any(2).to(torch::kFloat)}, {"length", length}});
}

int main(int argc, char** argv) {
  mt::TaskProgram program("tagging", "Tells which tokens of a sequence have come before.");
  program.devices.push_back(muster::testing::kFakeDevices);  // --device fake:0
  program.options.optimizer = "adam";
  program.options.lr = 0.01;
  program.options.epochs = 4;
  program.options.batch_size = 20;
  return program.run(argc, argv, [] {
    torch::manual_seed(0);
    return mt::TaskParts{
        .data = {.train = sequences(800), .validation = sequences(100), .test = sequences(200)},
        .task = [] { return std::make_unique<Tagging>(); }};
  });
}
