#include "muster/models/zoo/lstm.h"

#include <cmath>
#include <utility>

#include <ATen/ops/_pack_padded_sequence.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/lstm.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/init.h>

#include "muster/base/text.h"
#include "muster/models/layers/layers.h"
#include "muster/models/layers/padding.h"
#include "muster/models/layers/size_limits.h"

namespace muster::models {
namespace {

constexpr size_t kTensorsPerDirection = 4;

void check_lstm_sizes(const ImageShape& shape, const LstmOptions& options) {
  const auto [hidden, layers, bidirectional, dropout, vocabulary, embedding, padding] = options;
  const std::string sizes = concat(
      "hidden=", hidden, ",layers=", layers, ",embedding=", embedding, ",vocabulary=", vocabulary);
  if (hidden < 1 || layers < 1 || layers > kMostLayers || vocabulary < 0 || embedding < 1) {
    throw usage_error(
        {.refused = "model lstm",
         .rule = concat("hidden, layers and embedding are at least 1, layers at most ",
                        kMostLayers,
                        ", vocabulary at least 0"),
         .value = sizes});
  }
  const int64_t directions = bidirectional ? 2 : 1;
  const int64_t features = vocabulary > 0 ? embedding : shape.channels * shape.width;
  check_weights("lstm",
                {{directions, 4, hidden, features},
                 {vocabulary, embedding},
                 {layers - 1, directions, 4, hidden, directions, hidden},
                 {layers, directions, 4, hidden, hidden},
                 {directions, hidden, shape.classes}},
                sizes);
}

}  // namespace

LstmImpl::LstmImpl(const ImageShape& shape, const LstmOptions& options) : options_(options) {
  check_lstm_sizes(shape, options);
  int64_t features = shape.channels * shape.width;
  if (options.vocabulary > 0) {
    embedding_ =
        register_module("embedding", torch::nn::Embedding(options.vocabulary, options.embedding));
    features = options.embedding;
  }
  add_lstm(features);
  dropout_ = register_module("dropout", Dropout(options.dropout));
  fc_ = register_module(
      "fc", torch::nn::Linear(options.hidden * (options.bidirectional ? 2 : 1), shape.classes));
}

void LstmImpl::add_lstm(int64_t features) {
  lstm_ = add_group(*this, "lstm");
  const double bound = 1 / std::sqrt(static_cast<double>(options_.hidden));
  const int64_t gates = 4 * options_.hidden;
  const int directions = options_.bidirectional ? 2 : 1;
  const auto add = [&](const std::string& name, at::IntArrayRef sizes) {
    const at::Tensor tensor = lstm_->register_parameter(name, at::empty(sizes));
    torch::nn::init::uniform_(tensor, -bound, bound);
  };
  for (int64_t layer = 0; layer < options_.layers; ++layer) {
    for (int direction = 0; direction < directions; ++direction) {
      const std::string suffix = concat("_l", layer, direction == 1 ? "_reverse" : "");
      add("weight_ih" + suffix, {gates, layer == 0 ? features : options_.hidden * directions});
      add("weight_hh" + suffix, {gates, options_.hidden});
      add("bias_ih" + suffix, {gates});
      add("bias_hh" + suffix, {gates});
    }
  }
}

/// // [N, T, features]
at::Tensor LstmImpl::features_of(const at::Tensor& input) {
  const int64_t dimensions = embedding_ ? 2 : 4;
  if (input.dim() != dimensions) {
    throw usage_error({.refused = "input of model lstm",
                       .rule = embedding_ ? "with a vocabulary it is token ids [N, T]"
                                          : "without a vocabulary it is images [N, C, H, W]",
                       .value = concat("shape ", input.sizes())});
  }
  if (embedding_) return embedding_->forward(input);
  return input.size(1) == 1 ? input.squeeze(1) : input.transpose(1, 2).flatten(2);
}

/// The last layer's state after the last step, both directions side by side. // [N, D * hidden]
///
/// One call of at::lstm does all layers. Only dropout between them needs one call per layer, since
/// at::lstm would draw from the default generator; time comes first then, as inside at::lstm, so
/// that the masks are the same.
at::Tensor LstmImpl::last_state(const at::Tensor& sequence) {
  const int64_t directions = options_.bidirectional ? 2 : 1;
  const bool between = is_training() && options_.dropout > 0 && options_.layers > 1;
  const int64_t layers_per_call = between ? 1 : options_.layers;
  const std::vector<at::Tensor> weights = lstm_->parameters();
  const auto per_call = static_cast<size_t>(layers_per_call * directions) * kTensorsPerDirection;
  const at::Tensor start = at::zeros(
      {layers_per_call * directions, sequence.size(0), options_.hidden}, sequence.options());
  at::Tensor output = between ? sequence.transpose(0, 1) : sequence;
  at::Tensor state;
  for (size_t at = 0; at < weights.size(); at += per_call) {
    if (at > 0) output = dropout_->forward(output);
    std::tie(output, state, std::ignore) = at::lstm(output,
                                                    {start, start},
                                                    at::TensorList(weights).slice(at, per_call),
                                                    /*has_biases=*/true,
                                                    layers_per_call,
                                                    /*dropout=*/0,
                                                    is_training(),
                                                    options_.bidirectional,
                                                    /*batch_first=*/!between);
  }
  return directions == 1 ? state[-1] : at::cat({state[-2], state[-1]}, 1);
}

/// The same where sequences end earlier: at::lstm takes the steps of all side by side, the longest
/// sequence first, and stops each where it ends. sequence // [N, T, features], lengths // [N] int64
at::Tensor LstmImpl::last_state_of_padded(const at::Tensor& sequence, const at::Tensor& lengths) {
  const int64_t directions = options_.bidirectional ? 2 : 1;
  const bool between = is_training() && options_.dropout > 0 && options_.layers > 1;
  const int64_t layers_per_call = between ? 1 : options_.layers;
  const auto [sorted, order] = lengths.sort(/*stable=*/true, /*dim=*/0, /*descending=*/true);
  auto [steps, sizes] = at::_pack_padded_sequence(
      sequence.index_select(0, order), sorted.to(at::kCPU), /*batch_first=*/true);
  const std::vector<at::Tensor> weights = lstm_->parameters();
  const auto per_call = static_cast<size_t>(layers_per_call * directions) * kTensorsPerDirection;
  const at::Tensor start = at::zeros(
      {layers_per_call * directions, sequence.size(0), options_.hidden}, sequence.options());
  at::Tensor state;
  for (size_t at = 0; at < weights.size(); at += per_call) {
    if (at > 0) steps = dropout_->forward(steps);
    std::tie(steps, state, std::ignore) = at::lstm(steps,
                                                   sizes,
                                                   {start, start},
                                                   at::TensorList(weights).slice(at, per_call),
                                                   /*has_biases=*/true,
                                                   layers_per_call,
                                                   /*dropout=*/0,
                                                   is_training(),
                                                   options_.bidirectional);
  }
  const at::Tensor last = directions == 1 ? state[-1] : at::cat({state[-2], state[-1]}, 1);
  return last.index_select(0, order.argsort());
}

std::vector<ModelPart> LstmImpl::parts() {
  ModelPart body{.name = "lstm", .modules = {lstm_}, .forward = [this](const at::Tensor& input) {
                   const at::Tensor sequence = features_of(input);
                   if (!embedding_ || options_.padding < 0) return last_state(sequence);
                   return last_state_of_padded(sequence, lengths_without(input, options_.padding));
                 }};
  if (embedding_) body.modules.push_back(embedding_.ptr());
  return {std::move(body),
          {.name = "head",
           .modules = {dropout_.ptr(), fc_.ptr()},
           .forward = [this](const at::Tensor& x) { return fc_->forward(dropout_->forward(x)); }}};
}

namespace {

// No vocabulary: it is the data's.
constexpr Param kLstmParams[] = {
    param<&LstmOptions::hidden>("hidden", "width of the state"),
    param<&LstmOptions::layers>("layers", "LSTMs on top of each other"),
    param<&LstmOptions::bidirectional>("bidirectional", "also reads backwards"),
    param<&LstmOptions::dropout>("dropout", "share set to zero between layers and at the end"),
    param<&LstmOptions::embedding>("embedding", "width of a token's vector")};

std::shared_ptr<Classifier> make_lstm(const ImageShape& shape, const ParamValues& params) {
  auto options = resolve_params<LstmOptions>(kLstmParams, params, "model lstm");
  options.vocabulary = shape.vocabulary;
  options.padding = shape.padding;
  return std::make_shared<LstmImpl>(shape, options);
}

}  // namespace

extern constinit const ModelEntry lstm_entry{
    .name = "lstm",
    .help = "an LSTM that reads tokens, or an image row by row",
    .min_size = 1,
    .channels = 0,
    .params = kLstmParams,
    .make = &make_lstm,
    .takes_tokens = true};

}  // namespace muster::models
