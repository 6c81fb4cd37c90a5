#include "muster/models/zoo/transformer.h"

#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/nn/init.h>

#include "muster/base/text.h"
#include "muster/models/layers/layers.h"
#include "muster/models/layers/padding.h"
#include "muster/models/layers/size_limits.h"

namespace muster::models {
namespace {

torch::nn::LayerNorm layer_norm(int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
}

/// As Python's F.linear. Where its input has more than two dimensions, torch::nn::Linear adds the
/// bias to a product that autocast has rounded to 16 bits already, and rounds again.
at::Tensor project(const torch::nn::Linear& layer, const at::Tensor& x) {
  return at::linear(x, layer->weight, layer->bias);
}

}  // namespace

// Draws in the order of nn.MultiheadAttention: the output projection when it is made, the input
// projection when the module is complete.
EncoderLayerImpl::EncoderLayerImpl(int64_t width,
                                   int64_t heads,
                                   int64_t feedforward,
                                   double dropout)
    : torch::nn::Module("EncoderLayer"), heads_(heads) {
  const auto attention = add_group(*this, "self_attn");
  in_weight_ = attention->register_parameter("in_proj_weight", at::empty({3 * width, width}));
  in_bias_ = attention->register_parameter("in_proj_bias", at::empty({3 * width}));
  out_ = attention->register_module("out_proj", torch::nn::Linear(width, width));
  torch::nn::init::xavier_uniform_(in_weight_);
  torch::nn::init::zeros_(in_bias_);
  torch::nn::init::zeros_(out_->bias);
  attention_dropout_ = attention->register_module("dropout", Dropout(dropout));
  linear1_ = register_module("linear1", torch::nn::Linear(width, feedforward));
  dropout_ = register_module("dropout", Dropout(dropout));
  linear2_ = register_module("linear2", torch::nn::Linear(feedforward, width));
  norm1_ = register_module("norm1", layer_norm(width));
  norm2_ = register_module("norm2", layer_norm(width));
  dropout1_ = register_module("dropout1", Dropout(dropout));
  dropout2_ = register_module("dropout2", Dropout(dropout));
}

// ATen's fused attention draws its dropout from the default generator, so with dropout the weights
// are made by hand, as ATen's own unfused path does. nn.MultiheadAttention keeps the time in front
// in memory; masks are drawn in the order of memory, so it is kept here too where one follows.
at::Tensor EncoderLayerImpl::attention(const at::Tensor& x, const at::Tensor& mask) {
  const int64_t rows = x.size(0), tokens = x.size(1), width = x.size(2);
  const auto parts = at::linear(x, in_weight_, in_bias_)
                         .view({rows, tokens, 3, heads_, width / heads_})
                         .permute({2, 0, 3, 1, 4})
                         .unbind(0);  // 3 of [N, heads, T, width / heads]
  std::optional<at::Tensor> seen;     // [N, 1, 1, T] bool
  if (mask.defined()) seen = mask.ne(0).unsqueeze(1).unsqueeze(2);
  if (!is_training() || attention_dropout_->p() == 0) {
    const at::Tensor out = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], seen);
    return project(out_, out.transpose(1, 2).reshape({rows, tokens, width}));
  }
  const double scale = std::pow(static_cast<double>(width / heads_), -0.25);
  at::Tensor scores = (parts[0] * scale).matmul((parts[1] * scale).transpose(-2, -1));
  if (seen)
    scores = scores.masked_fill(seen->logical_not(), -std::numeric_limits<double>::infinity());
  const at::Tensor out = attention_dropout_->forward(scores.softmax(-1)).matmul(parts[2]);
  return project(out_, out.permute({2, 0, 1, 3}).reshape({tokens, rows, width})).transpose(0, 1);
}

at::Tensor EncoderLayerImpl::forward(const at::Tensor& x, const at::Tensor& mask) {
  const at::Tensor middle = x + dropout1_->forward(attention(norm1_->forward(x), mask));
  const at::Tensor inner = at::gelu(project(linear1_, norm2_->forward(middle)));
  return middle + dropout2_->forward(project(linear2_, dropout_->forward(inner)));
}

namespace {

void check_options(const ImageShape& shape, const TransformerOptions& options) {
  const auto refuse_transformer = [](std::string rule, std::string value) {
    throw usage_error(
        {.refused = "model transformer", .rule = std::move(rule), .value = std::move(value)});
  };
  for (const int64_t size : {options.patch,
                             options.width,
                             options.heads,
                             options.layers,
                             options.feedforward,
                             options.tokens}) {
    if (size < 1) refuse_transformer("its sizes are at least 1", std::to_string(size));
  }
  if (options.layers > kMostLayers)
    refuse_transformer(concat("at most ", kMostLayers, " layers"),
                       concat("layers=", options.layers));
  if (options.vocabulary < 0)
    refuse_transformer("vocabulary is at least 0", concat(options.vocabulary));
  if (options.width % options.heads != 0) {
    refuse_transformer("heads divide the width",
                       concat("width=", options.width, ",heads=", options.heads));
  }
  if (options.vocabulary == 0 &&
      (shape.height % options.patch != 0 || shape.width % options.patch != 0)) {
    refuse_transformer("patches cover the image without a rest",
                       concat("patch=", options.patch, " for ", shape.height, " x ", shape.width));
  }
  const bool reads_tokens = options.vocabulary > 0;
  check_weights("transformer",
                {{reads_tokens ? options.vocabulary : 0, options.width},
                 {reads_tokens ? options.tokens : shape.height * shape.width, options.width},
                 {reads_tokens ? 0 : shape.channels, options.patch, options.patch, options.width},
                 {options.layers, 4, options.width, options.width},
                 {options.layers, 2, options.width, options.feedforward},
                 {options.width, shape.classes}},
                concat("width=",
                       options.width,
                       ",layers=",
                       options.layers,
                       ",feedforward=",
                       options.feedforward));
}

}  // namespace

TransformerImpl::TransformerImpl(const ImageShape& shape, const TransformerOptions& options) {
  check_options(shape, options);
  padding_ = options.vocabulary > 0 ? options.padding : -1;
  int64_t tokens = options.tokens;
  if (options.vocabulary > 0) {
    embedding_ =
        register_module("embedding", torch::nn::Embedding(options.vocabulary, options.width));
  } else {
    patches_ = register_module(
        "patches",
        torch::nn::Conv2d(torch::nn::Conv2dOptions(shape.channels, options.width, options.patch)
                              .stride(options.patch)));
    tokens = (shape.height / options.patch) * (shape.width / options.patch);
  }
  positions_ = register_parameter("positions", at::empty({1, tokens, options.width}));
  torch::nn::init::normal_(positions_, 0, 0.02);
  dropout_ = register_module("dropout", Dropout(options.dropout));
  const auto group = add_group(*this, "layers");
  for (int64_t i = 0; i < options.layers; ++i) {
    layers_.push_back(group->register_module(
        std::to_string(i),
        EncoderLayer(options.width, options.heads, options.feedforward, options.dropout)));
  }
  norm_ = register_module("norm", layer_norm(options.width));
  head_ = register_module("head", torch::nn::Linear(options.width, shape.classes));
}

/// // [N, T, width]
at::Tensor TransformerImpl::tokens_of(const at::Tensor& input) {
  if (input.dim() != (embedding_ ? 2 : 4)) {
    throw usage_error({.refused = "input of model transformer",
                       .rule = embedding_ ? "with a vocabulary it is token ids [N, T]"
                                          : "without a vocabulary it is images [N, C, H, W]",
                       .value = concat("shape ", input.sizes())});
  }
  return embedding_ ? embedding_->forward(input)
                    : patches_->forward(input).flatten(2).transpose(1, 2);
}

at::Tensor TransformerImpl::with_positions(const at::Tensor& input) {
  at::Tensor x = tokens_of(input);
  const int64_t most = positions_.size(1);
  if (x.size(1) > most || (patches_ && x.size(1) != most)) {
    throw usage_error(
        {.refused = "input of model transformer",
         .rule = concat("it was made for ", embedding_ ? "at most " : "", most, " tokens"),
         .value = concat(x.size(1))});
  }
  return dropout_->forward(x + positions_.narrow(1, 0, x.size(1)));
}

at::Tensor TransformerImpl::head(const at::Tensor& x, const at::Tensor& mask) {
  const at::Tensor tokens = norm_->forward(x);
  if (!mask.defined()) return head_->forward(tokens.mean(1));
  const at::Tensor sum = tokens.mul(mask.unsqueeze(2)).sum(1);
  return head_->forward(sum / mask.sum(1, /*keepdim=*/true));
}

/// // [N, T] in the dtype of the weights: 1 for a token, 0 for padding behind the last one
at::Tensor TransformerImpl::token_mask(const at::Tensor& input) const {
  return mask_of(lengths_without(input, padding_), input.size(1)).to(positions_.scalar_type());
}

at::Tensor TransformerImpl::forward(at::Tensor input) {
  if (padding_ < 0) return Classifier::forward(std::move(input));
  std::vector<at::Tensor> tensors{std::move(input)};
  for (const tensor::ChainedUnit& unit : padded_chain())
    tensors = tensor::call_unit(unit.name, unit.forward, tensors);
  return tensors.at(0);
}

std::vector<tensor::ChainedUnit> TransformerImpl::chain() {
  return padding_ < 0 ? Classifier::chain() : padded_chain();
}

/// What parts() would be, with the mask beside the tokens.
std::vector<tensor::ChainedUnit> TransformerImpl::padded_chain() {
  using Tensors = std::vector<at::Tensor>;
  std::vector<tensor::ChainedUnit> chain;
  chain.push_back({.name = "tokens",
                   .modules = {embedding_.ptr(), dropout_.ptr()},
                   .parameters = {{"positions", positions_}},
                   .forward = [this](const Tensors& in) {
                     return Tensors{with_positions(in.at(0)), token_mask(in.at(0))};
                   }});
  for (size_t i = 0; i < layers_.size(); ++i) {
    const auto layer = layers_[i].ptr();
    chain.push_back(
        {.name = concat("layers.", i), .modules = {layer}, .forward = [layer](const Tensors& in) {
           return Tensors{layer->forward(in.at(0), in.at(1)), in.at(1)};
         }});
  }
  chain.push_back(
      {.name = "head", .modules = {norm_.ptr(), head_.ptr()}, .forward = [this](const Tensors& in) {
         return Tensors{head(in.at(0), in.at(1))};
       }});
  return chain;
}

std::vector<ModelPart> TransformerImpl::parts() {
  std::vector<ModelPart> parts;
  if (padding_ >= 0) return parts;
  std::shared_ptr<torch::nn::Module> first;
  if (embedding_) {
    first = embedding_.ptr();
  } else {
    first = patches_.ptr();
  }
  parts.push_back({.name = "tokens",
                   .modules = {first, dropout_.ptr()},
                   .parameters = {{"positions", positions_}},
                   .forward = [this](const at::Tensor& input) { return with_positions(input); }});
  for (size_t i = 0; i < layers_.size(); ++i) {
    const auto layer = layers_[i].ptr();
    parts.push_back({.name = concat("layers.", i),
                     .modules = {layer},
                     .forward = [layer](const at::Tensor& x) { return layer->forward(x); }});
  }
  parts.push_back({.name = "head",
                   .modules = {norm_.ptr(), head_.ptr()},
                   .forward = [this](const at::Tensor& x) { return head(x, {}); }});
  return parts;
}

namespace {

// No vocabulary: it is the data's.
constexpr Param kTransformerParams[] = {
    param<&TransformerOptions::patch>("patch", "height and width of a patch in pixels"),
    param<&TransformerOptions::width>("width", "width of a token's vector"),
    param<&TransformerOptions::heads>("heads", "heads of attention; they divide the width"),
    param<&TransformerOptions::layers>("layers", "encoder layers"),
    param<&TransformerOptions::feedforward>("feedforward", "width inside a layer's second half"),
    param<&TransformerOptions::dropout>("dropout", "share set to zero while training")};

std::shared_ptr<Classifier> make_transformer(const ImageShape& shape, const ParamValues& params) {
  auto options =
      resolve_params<TransformerOptions>(kTransformerParams, params, "model transformer");
  options.vocabulary = shape.vocabulary;
  options.padding = shape.padding;
  if (shape.vocabulary > 0) options.tokens = shape.width;
  return std::make_shared<TransformerImpl>(shape, options);
}

}  // namespace

extern constinit const ModelEntry transformer_entry{
    .name = "transformer",
    .help = "a small pre-norm Transformer over tokens, or patches of an image",
    .min_size = 4,
    .channels = 0,
    .params = kTransformerParams,
    .make = &make_transformer,
    .takes_tokens = true};

}  // namespace muster::models
