// What it shows: sequences of unlike lengths. A network says of each token whether it came before. The
//     dataset pads a batch; padding counts nothing: the loss is the mean over all ranks' tokens.
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
constexpr auto kPad = md::CollateRule::How::kPad;

struct TaggerImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& tokens) {  // [N, T] int64  ->  scores // [N, T]
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
  double weight(const md::Batch& of) const override { return of["mask"].sum().item<double>(); }
  mt::StepResult train_step(const md::Batch& batch, const mt::StepContext&) override {
    const torch::Tensor said = net_->forward(batch["tokens"]).masked_select(batch["mask"]);
    const torch::Tensor truth = batch["target"].masked_select(batch["mask"]);
    return {.loss = torch::binary_cross_entropy_with_logits(said, truth),
            .values = {{"accuracy", said.detach().gt(0).eq(truth.gt(0.5)).sum(), {}}}};
  }

 private:
  Tagger net_;
};

// Tokens, and 1 where one comes again: each sample as long as it is, a batch as its longest one.
class Sequences final : public md::SampleDataset {
 public:
  explicit Sequences(int64_t count)
      : SampleDataset(md::Collate({{.tensor = "tokens", .how = kPad, .mask = "mask"},
                                   {.tensor = "target", .how = kPad}})),
        length_(torch::randint(3, kLongest + 1, {count}, torch::kLong)),
        tokens_(torch::randint(1, kTokens, {count, kLongest}, torch::kLong)) {}
  int64_t size() const override { return tokens_.size(0); }
  md::DataSpec spec() const override { return {.name = "words", .kind = md::DataKind::kTokens}; }

 private:
  md::Sample sample(int64_t index, const md::SampleContext&) const override {
    const torch::Tensor tokens = tokens_[index].narrow(0, 0, length_[index].item<int64_t>());
    const torch::Tensor same = tokens.unsqueeze(1).eq(tokens.unsqueeze(0)).tril(-1);
    return {.tensors = {{"tokens", tokens}, {"target", same.any(1).to(torch::kFloat)}}};
  }
  torch::Tensor length_, tokens_;
};

int main(int argc, char** argv) {
  mt::TaskProgram program("tagging", "Tells which tokens of a sequence have come before.");
  program.devices.push_back(muster::testing::kFakeDevices);  // --device fake:0
  program.options.optimizer = "adam";
  program.options.lr = 0.01;
  program.options.epochs = 4;
  program.options.batch_size = 20;
  return program.run(argc, argv, [] {
    torch::manual_seed(0);
    const auto made = [](int64_t count) { return std::make_shared<Sequences>(count); };
    return mt::TaskParts{.data = {.train = made(800), .validation = made(100), .test = made(200)},
                         .task = [] { return std::make_unique<Tagging>(); }};
  });
}
