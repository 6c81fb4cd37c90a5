// What it shows: data in shards that are read from their start, as files of rows or archives are.
//     Ranks and workers share the shards without losing or repeating a sample, also where a run goes
//     on in the middle of an epoch. The shards are made up here: a reader of files would open one,
//     and read a row in next().
// How to run: muster run --nproc-per-node 2 -- build/bin/examples/streaming --output runs/stream
// Expected output (the last digits depend on the machine):
//     test loss 0.0319, absolute_error 0.0966
#include <torch/torch.h>

#include "muster/data.h"
#include "muster/train.h"

namespace md = muster::data;
namespace mt = muster::train;

// A row is four numbers and the sine of their sum, with some noise.
class Rows final : public md::ShardReader {
 public:
  explicit Rows(int64_t shard) : shard_(shard) {}
  md::Sample next() override {
    md::Rng rng(/*seed=*/7, /*epoch=*/0, shard_, row_++);
    torch::Tensor x = torch::empty({4});
    for (int64_t i = 0; i < 4; ++i) x[i] = rng.uniform(-1, 1);
    return {.tensors = {{"data", x}, {"target", x.sum().sin() + 0.05 * rng.normal()}}};
  }
  void skip(int64_t samples) override { row_ += samples; }

 private:
  int64_t shard_, row_ = 0;
};

class Shards final : public md::StreamDataset {
 public:
  // Shards are numbered from `first` on; each has so many rows.
  Shards(int64_t first, const std::vector<int64_t>& rows)
      : StreamDataset(rows, {.lanes = 4, .shuffle_window = 16}), first_(first) {}
  md::DataSpec spec() const override { return {.name = "rows", .sample_shape = {4}}; }

 private:
  std::unique_ptr<md::ShardReader> open(int64_t shard) const override {
    return std::make_unique<Rows>(first_ + shard);
  }
  int64_t first_;
};

class Fit final : public mt::Task {
 public:
  std::string name() const override { return "streaming"; }
  std::shared_ptr<torch::nn::Module> module() override { return net_.ptr(); }
  std::vector<mt::Metric> metrics() const override {
    return {{.name = "absolute_error", .wants_less = true}};
  }
  mt::StepResult train_step(const md::Batch& batch, const mt::StepContext&) override {
    const torch::Tensor error = net_->forward(batch["data"]).squeeze(1) - batch["target"];
    return {.loss = error.pow(2).mean(),
            .values = {{"absolute_error", error.detach().abs().sum(), {}}}};
  }

 private:
  torch::nn::Sequential net_{torch::nn::Linear(4, 32), torch::nn::Tanh(), torch::nn::Linear(32, 1)};
};

int main(int argc, char** argv) {
  mt::TaskProgram program("streaming", "Fits a network to rows that come in shards.");
  program.options.optimizer = "adam";
  program.options.lr = 0.01;
  program.options.epochs = 5;
  program.options.batch_size = 20;
  return program.run(argc, argv, [] {
    return mt::TaskParts{
        .data = {.train = std::make_shared<Shards>(0, std::vector<int64_t>{90, 120, 60, 150, 80}),
                 .validation = std::make_shared<Shards>(10, std::vector<int64_t>{60}),
                 .test = std::make_shared<Shards>(20, std::vector<int64_t>{70, 50})},
        .task = [] { return std::make_unique<Fit>(); }};
  });
}
