// Random networks, and what training them by DDP and by ZeRO ends in.
#pragma once

#include <random>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "muster/parallel/sharded/zero.h"

#include "tests/support/distance.h"

namespace muster::test {

/// bfloat16 by ATen's own kernels: oneDNN's die of SIGILL (AMX) on some virtual machines, in Python
/// as in C++.
struct WithoutOneDnn {
  WithoutOneDnn() { at::globalContext().setUserEnabledMkldnn(false); }
  ~WithoutOneDnn() { at::globalContext().setUserEnabledMkldnn(true); }
};

inline constexpr int64_t kInputs = 9;

/// One to four layers of random widths, with LayerNorm or BatchNorm or none between them, and
/// sometimes a layer that is used twice under two names.
struct RandomNetImpl : torch::nn::Module {
  explicit RandomNetImpl(unsigned seed) {
    std::mt19937 random(seed);
    torch::manual_seed(seed);
    int64_t width = kInputs;
    const int layers = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < layers; ++i) {
      const int64_t next = 1 + static_cast<int64_t>(random() % 70);
      const std::string number = std::to_string(i);
      linears.push_back(register_module("linear" + number, torch::nn::Linear(width, next)));
      const auto kind = random() % 3;
      if (kind == 0) {
        layer_norms.push_back(register_module(
            "norm" + number, torch::nn::LayerNorm(torch::nn::LayerNormOptions({next}))));
      } else {
        layer_norms.emplace_back(nullptr);
      }
      if (kind == 1) {
        batch_norms.push_back(register_module("norm" + number, torch::nn::BatchNorm1d(next)));
      } else {
        batch_norms.emplace_back(nullptr);
      }
      width = next;
    }
    if (random() % 2 == 0) {
      square = register_module("square", torch::nn::Linear(width, width));
      tied = register_parameter("tied", square->weight);
    }
    head = register_module("head", torch::nn::Linear(width, 3));
  }

  torch::Tensor forward(torch::Tensor x) {
    for (size_t i = 0; i < linears.size(); ++i) {
      x = tensor::call_unit("linear" + std::to_string(i), linears[i], x);
      if (layer_norms[i]) x = layer_norms[i]->forward(x);
      if (batch_norms[i]) x = batch_norms[i]->forward(x);
      x = torch::tanh(x);
    }
    if (square) {
      const torch::Tensor h = tensor::call_unit("square", square, x);
      x = torch::tanh(torch::linear(torch::tanh(h), tied));
    }
    return tensor::call_unit("head", head, x);
  }

  /// For stage 3: each linear layer; norms, and what is tied, are the rest.
  std::vector<parallel::ShardUnit> units() const {
    std::vector<parallel::ShardUnit> units;
    for (size_t i = 0; i < linears.size(); ++i) units.push_back({"linear" + std::to_string(i)});
    if (square) units.push_back({"square"});
    units.push_back({"head"});
    return units;
  }

  std::vector<torch::nn::Linear> linears;
  std::vector<torch::nn::LayerNorm> layer_norms;
  std::vector<torch::nn::BatchNorm1d> batch_norms;
  torch::nn::Linear square{nullptr}, head{nullptr};
  torch::Tensor tied;
};
TORCH_MODULE(RandomNet);

/// Each parameter and buffer once.
inline std::vector<torch::Tensor> state_of(const torch::nn::Module& module) {
  std::vector<torch::Tensor> state;
  const auto add = [&](const torch::Tensor& tensor) {
    for (const torch::Tensor& seen : state) {
      if (seen.is_same(tensor)) return;
    }
    state.push_back(tensor);
  };
  for (const torch::Tensor& parameter : module.parameters()) add(parameter);
  for (const torch::Tensor& buffer : module.buffers()) add(buffer);
  return state;
}

inline std::vector<torch::Tensor> trained_of(const torch::nn::Module& module) {
  std::vector<torch::Tensor> trained;
  for (const torch::Tensor& tensor : state_of(module)) {
    if (tensor.requires_grad()) trained.push_back(tensor);
  }
  return trained;
}

inline std::vector<torch::Tensor> copies(const std::vector<torch::Tensor>& tensors) {
  std::vector<torch::Tensor> out;
  for (const torch::Tensor& tensor : tensors) out.push_back(tensor.detach().clone());
  return out;
}

inline bool bit_equal(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!torch::equal(a[i], b[i])) return false;
  }
  return true;
}

/// This rank's rows of a step's batch; of one rank, all rows.
inline torch::Tensor batch_of(int64_t step, int rank, int world, torch::Dtype dtype) {
  constexpr int64_t kRows = 24;  // 1, 2, 3 and 4 ranks share it equally
  auto generator = torch::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(1000 + step));
  const torch::Tensor all = torch::randn({kRows, kInputs}, generator, torch::kDouble).to(dtype);
  return all.narrow(0, rank * kRows / world, kRows / world);
}

inline torch::Tensor loss_of(const torch::Tensor& scores) {
  return (scores - 0.5).pow(2).mean(1).mean();
}

}  // namespace muster::test
