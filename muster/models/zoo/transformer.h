// A classifier by a small Transformer encoder.
#pragma once

#include <vector>

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include "muster/models/layers/dropout.h"
#include "muster/models/model.h"

namespace muster::models {

struct TransformerOptions {
  int64_t patch = 4;          ///< height and width of a patch, in pixels
  int64_t width = 64;         ///< of a token's vector; heads divide it
  int64_t heads = 4;          ///< of attention
  int64_t layers = 2;         ///< of the encoder
  int64_t feedforward = 256;  ///< width inside a layer's second half
  double dropout = 0.1;       ///< of tokens, attention weights and both halves of each layer
  int64_t vocabulary = 0;     ///< above 0: the input is token ids below it, not images
  int64_t tokens = 256;       ///< with a vocabulary: the longest sequence
  int64_t padding = -1;       ///< with a vocabulary: the id that fills sequences up; -1: none does
};

/// x + attention(norm1(x)), then x + linear2(gelu(linear1(norm2(x)))): what
/// nn.TransformerEncoderLayer does with norm_first=True, batch_first=True, activation="gelu".
/// Parameters: self_attn.in_proj_weight, self_attn.in_proj_bias, self_attn.out_proj, linear1,
/// linear2, norm1, norm2. Source: Vaswani et al. 2017; norms in front: Xiong et al. 2020.
class EncoderLayerImpl : public torch::nn::Module {
 public:
  EncoderLayerImpl(int64_t width, int64_t heads, int64_t feedforward, double dropout);

  /// x // [N, T, width]  ->  the same shape
  /// mask // [N, T] in the dtype of x: 0 for tokens that nobody attends to (src_key_padding_mask);
  /// undefined: there are none.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& mask = {});

 private:
  at::Tensor attention(const at::Tensor& x, const at::Tensor& mask);

  int64_t heads_;
  at::Tensor in_weight_, in_bias_;  ///< [3 * width, width], [3 * width]: queries, keys, values
  torch::nn::Linear out_{nullptr}, linear1_{nullptr}, linear2_{nullptr};
  torch::nn::LayerNorm norm1_{nullptr}, norm2_{nullptr};
  Dropout attention_dropout_{nullptr}, dropout_{nullptr}, dropout1_{nullptr}, dropout2_{nullptr};
};
TORCH_MODULE(EncoderLayer);

/// Tokens with learned positions through the encoder; the class is told from the mean of the
/// normalised tokens at the end: // [N, C, H, W] floating point, or token ids [N, T ≤ tokens] int64
/// -> [N, classes]. An image becomes patches, as in ViT (Dosovitskiy et al. 2020, without its class
/// token); token ids are embedded. With a padding id, whatever of it stands at a sequence's end is
/// neither attended to nor part of the mean. A sequence of nothing else is read as one of them.
///
/// Parameters, in the order of the draws: patches (nn.Conv2d) or embedding (nn.Embedding),
/// positions (N(0, 0.02²)), layers.0 …, norm, head. Each layer is drawn by itself; Python's
/// nn.TransformerEncoder would start all layers as copies of one.
class TransformerImpl : public Classifier {
 public:
  /// With a vocabulary, `shape` only gives the classes. Throws a usage error for sizes below 1, a
  /// width that heads do not divide, an image that patches do not divide, or a dropout outside
  /// 0 … 1.
  explicit TransformerImpl(const ImageShape& shape, const TransformerOptions& options = {});

  at::Tensor forward(at::Tensor input) override;

  /// "tokens", each encoder layer ("layers.0", …), "head". With a padding id there are none, as between
  /// them go two tensors: the tokens, and their mask. Then it has a chain of the same names.
  std::vector<ModelPart> parts() override;
  std::vector<tensor::ChainedUnit> chain() override;

 private:
  at::Tensor with_positions(const at::Tensor& input);
  at::Tensor head(const at::Tensor& x, const at::Tensor& mask);
  at::Tensor token_mask(const at::Tensor& input) const;
  std::vector<tensor::ChainedUnit> padded_chain();
  at::Tensor tokens_of(const at::Tensor& input);

  int64_t padding_ = -1;
  torch::nn::Conv2d patches_{nullptr};
  torch::nn::Embedding embedding_{nullptr};
  at::Tensor positions_;  ///< [1, T, width]
  Dropout dropout_{nullptr};
  std::vector<EncoderLayer> layers_;
  torch::nn::LayerNorm norm_{nullptr};
  torch::nn::Linear head_{nullptr};
};
TORCH_MODULE(Transformer);

}  // namespace muster::models
