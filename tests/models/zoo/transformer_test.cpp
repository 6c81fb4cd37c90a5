// The Transformer's layer under autocast, against the operations that nn.TransformerEncoderLayer
// calls.
#include "muster/models/zoo/transformer.h"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace muster::models {
namespace {

constexpr int64_t kWidth = 32, kHeads = 4, kFeedforward = 48;

struct Bfloat16Autocast {
  Bfloat16Autocast() {
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, true);
  }
  ~Bfloat16Autocast() {
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::clear_cache();
  }
};

/// By the calls of Python's module in eval mode: F.linear is at::linear.
at::Tensor by_pythons_calls(const EncoderLayer& layer, const at::Tensor& x) {
  const auto weights = layer->named_parameters();
  const auto linear = [&](const at::Tensor& input, const std::string& name) {
    return at::linear(input, weights[name + ".weight"], weights[name + ".bias"]);
  };
  const auto norm = [&](const at::Tensor& input, const std::string& name) {
    return at::layer_norm(input, {kWidth}, weights[name + ".weight"], weights[name + ".bias"]);
  };
  const int64_t rows = x.size(0), tokens = x.size(1);
  const auto heads = [&](const at::Tensor& part) {
    return part.reshape({rows, tokens, kHeads, kWidth / kHeads}).transpose(1, 2);
  };
  const auto parts =
      at::linear(
          norm(x, "norm1"), weights["self_attn.in_proj_weight"], weights["self_attn.in_proj_bias"])
          .chunk(3, -1);
  const at::Tensor attention =
      at::scaled_dot_product_attention(heads(parts[0]), heads(parts[1]), heads(parts[2]))
          .transpose(1, 2)
          .reshape({rows, tokens, kWidth});
  const at::Tensor middle = x + linear(attention, "self_attn.out_proj");
  return middle + linear(at::gelu(linear(norm(middle, "norm2"), "linear1")), "linear2");
}

TEST(EncoderLayerUnderAutocast, RoundsWherePythonDoes) {
  torch::manual_seed(3);
  EncoderLayer layer(kWidth, kHeads, kFeedforward, 0.0);
  layer->eval();
  const torch::NoGradGuard no_grad;
  for (auto& bias : layer->named_parameters()) {
    if (bias.key().ends_with("bias")) bias.value().normal_();
  }
  const at::Tensor x = torch::randn({3, 7, kWidth});
  const Bfloat16Autocast autocast;
  const at::Tensor ours = layer->forward(x);
  EXPECT_TRUE(ours.equal(by_pythons_calls(layer, x)))
      << (ours - by_pythons_calls(layer, x)).abs().max().item<float>();
}

}  // namespace
}  // namespace muster::models
