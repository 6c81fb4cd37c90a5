// Models of random shape for tests of pipelines, and the same on one device.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include <torch/torch.h>

#include "muster/parallel/pipeline/pipeline.h"

namespace muster::test {

/// Blocks that begin in place, normalise, and widen; each takes one tensor // [rows, width].
struct DenseBlockImpl : torch::nn::Module {
  DenseBlockImpl(int64_t in, int64_t out, bool normalises, bool in_place)
      : linear(register_module("linear", torch::nn::Linear(in, out))), in_place(in_place) {
    if (normalises)
      norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({out})));
  }
  torch::Tensor forward(torch::Tensor x) {
    x = linear(in_place ? x.relu_() : x.relu());
    return norm ? norm(x) : x;
  }
  torch::nn::Linear linear{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  bool in_place;
};
TORCH_MODULE(DenseBlock);

inline torch::Tensor squares(const parallel::Tensors& outputs, const parallel::Tensors& targets) {
  return (outputs[0] - targets[0]).pow(2).mean();
}

/// A chain of dense blocks with a Linear before them.
struct Chain {
  Chain(int blocks, unsigned seed, torch::Dtype dtype = torch::kDouble, bool in_place = true) {
    torch::manual_seed(seed);
    std::mt19937 random(seed);
    int64_t width = 2 + int64_t(random() % 6);
    net->push_back(torch::nn::Linear(3, width));
    for (int i = 1; i < blocks; ++i) {
      // A norm over two numbers that are alike is mostly rounding.
      const bool normalises = random() % 2 == 0 && dtype == torch::kDouble;
      const int64_t next = 2 + int64_t(random() % 6);
      net->push_back(DenseBlock(width, next, normalises, in_place));
      width = next;
    }
    net->to(dtype);
    options = torch::TensorOptions().dtype(dtype);
    out_width = width;
  }
  torch::Tensor inputs(int64_t rows) const { return torch::randn({rows, 3}, options); }
  torch::Tensor targets(int64_t rows) const { return torch::randn({rows, out_width}, options); }

  torch::nn::Sequential net;
  torch::TensorOptions options;
  int64_t out_width = 0;
};

inline std::vector<torch::Tensor> gradients_of(const std::vector<torch::Tensor>& parameters) {
  std::vector<torch::Tensor> found;
  for (const torch::Tensor& parameter : parameters)
    found.push_back(parameter.grad().defined() ? parameter.grad().clone()
                                               : torch::zeros_like(parameter));
  return found;
}

/// The whole batch at once.
inline std::vector<torch::Tensor> gradients_on_one_device(Chain& chain,
                                                          const torch::Tensor& x,
                                                          const torch::Tensor& y) {
  chain.net->zero_grad();
  squares({chain.net->forward(x)}, {y}).backward();
  auto found = gradients_of(chain.net->parameters());
  chain.net->zero_grad();
  return found;
}

inline std::vector<c10::Device> ranks_on_cpu(int64_t count) {
  return std::vector<c10::Device>(static_cast<size_t>(count), c10::Device(c10::kCPU));
}

/// `stages` cuts of `blocks` blocks, at random places.
inline pipeline::Split random_split(int64_t blocks, int64_t stages, std::mt19937& random) {
  std::vector<int64_t> places;
  for (int64_t i = 1; i < blocks; ++i) places.push_back(i);
  std::shuffle(places.begin(), places.end(), random);
  pipeline::Split first(places.begin(), places.begin() + stages - 1);
  first.push_back(0);
  std::sort(first.begin(), first.end());
  return first;
}

}  // namespace muster::test
