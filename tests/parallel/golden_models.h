// The models and batches of tests/golden/ddp/README.md, statement by statement.
#pragma once

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "muster/base/json.h"

#include "tests/support/golden.h"

namespace muster::test {

struct GoldenModel : torch::nn::Module {
  virtual torch::Tensor forward(torch::Tensor x) = 0;
};

struct Mlp : GoldenModel {
  Mlp() {
    fc1 = register_module("fc1", torch::nn::Linear(8, 12));
    fc2 = register_module("fc2", torch::nn::Linear(12, 6));
    fc3 = register_module("fc3", torch::nn::Linear(6, 4));
  }
  torch::Tensor forward(torch::Tensor x) override {
    return fc3(torch::relu(fc2(torch::relu(fc1(x)))));
  }
  torch::nn::Linear fc1{nullptr}, fc2{nullptr}, fc3{nullptr};
};

/// Shares a weight, so that it is registered under two names.
struct Again : torch::nn::Module {
  explicit Again(const torch::Tensor& shared) {
    weight = register_parameter("weight", shared);
    bias = register_parameter("bias", torch::zeros({7}));
  }
  torch::Tensor weight, bias;
};

/// BatchNorm in eval mode, tied weights, an unused layer.
struct Knotted : GoldenModel {
  Knotted() {
    inlet = register_module("inlet", torch::nn::Linear(8, 7));
    norm = register_module("norm", torch::nn::BatchNorm1d(7));
    tied = register_module("tied", torch::nn::Linear(7, 7));
    again = register_module("again", std::make_shared<Again>(tied->weight));
    unused = register_module("unused", torch::nn::Linear(7, 3));
    head = register_module("head", torch::nn::Linear(7, 4));
    for (int i = 0; i < 7; ++i) {
      norm->running_mean[i] = 0.125 * i - 0.375;
      norm->running_var[i] = 0.5 + 0.125 * i;
    }
    norm->eval();
  }
  torch::Tensor forward(torch::Tensor x) override {
    torch::Tensor h = torch::relu(norm(inlet(x)));
    h = torch::relu(torch::linear(h, tied->weight, tied->bias));
    h = torch::relu(torch::linear(h, again->weight, again->bias));
    return head(h);
  }
  torch::nn::Linear inlet{nullptr}, tied{nullptr}, unused{nullptr}, head{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  std::shared_ptr<Again> again;
};

inline std::shared_ptr<GoldenModel> make_golden_model(const std::string& name) {
  torch::manual_seed(0);
  if (name == "mlp") return std::make_shared<Mlp>();
  return std::make_shared<Knotted>();
}

/// The parameters by name, a shared tensor once: as the golden lists them, and as an optimizer must
/// get them.
inline std::vector<std::pair<std::string, torch::Tensor>> parameters_once(
    const torch::nn::Module& module) {
  std::vector<std::pair<std::string, torch::Tensor>> once;
  for (const auto& item : module.named_parameters()) {
    bool seen = false;
    for (const auto& [name, tensor] : once) seen |= tensor.is_same(item.value());
    if (!seen) once.emplace_back(item.key(), item.value());
  }
  return once;
}

struct GoldenBatch {
  torch::Tensor x;  // [16, 8]
  torch::Tensor y;  // [16] int64

  GoldenBatch rows(int64_t from, int64_t count) const {
    return {x.narrow(0, from, count), y.narrow(0, from, count)};
  }
};

inline GoldenBatch golden_batch(int64_t step, torch::Dtype dtype) {
  auto generator = torch::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(100 + step));
  torch::Tensor x = torch::rand({16, 8}, generator);
  x = x * 2;
  x = x - 1;
  torch::Tensor y = torch::randint(0, 4, {16}, generator, torch::kLong);
  return {x.to(dtype), y};
}

/// The same small model for each rank.
inline std::vector<std::shared_ptr<GoldenModel>> golden_models(int ranks) {
  std::vector<std::shared_ptr<GoldenModel>> models;
  for (int rank = 0; rank < ranks; ++rank) models.push_back(make_golden_model("mlp"));
  return models;
}

/// What a wrapped one of them loses on the batch of that step.
template <class Ddp>
torch::Tensor golden_loss(Ddp& ddp, int64_t step) {
  const GoldenBatch batch = golden_batch(step, torch::kFloat);
  return torch::nn::functional::cross_entropy(ddp->forward(batch.x), batch.y);
}

/// A list of numbers, however deep, as one float64 row.
inline torch::Tensor flat(const Json& values) {
  return torch::tensor(values.get<std::vector<double>>(), torch::kDouble);
}

}  // namespace muster::test
