// LSTMs, layer by layer as the CPU has them.
#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mkldnn_rnn_layer.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>

#include "muster/memory/estimate/meta_library.h"

namespace muster::memory {
namespace {

using at::Tensor;

// Note [Workspace of an LSTM layer]
// A forward that trains keeps for its backward what oneDNN calls a workspace: the four gates of every
// step, and five arrays of states, three as wide as the wider of input and state, two as wide as the
// state. Rows are whole lines of 64 bytes, and one more where they would else be a multiple of 512
// bytes. This is a fit to what the CPU's kernel was seen to take, within 3 % over 17 shapes, not a rule
// that oneDNN promises.
int64_t row_of(int64_t width) {
  constexpr int64_t kLine = 16, kAliased = 128;  // of float32
  const int64_t row = (width + kLine - 1) / kLine * kLine;
  return row % kAliased == 0 ? row + kLine : row;
}

int64_t gates_of(const Tensor& input, int64_t hidden) {
  return input.size(0) * input.size(1) * row_of(4 * hidden);
}

int64_t workspace_of(const Tensor& input, int64_t hidden) {
  constexpr int64_t kWide = 3, kNarrow = 2;
  const int64_t rows = 2 * (input.size(0) + 1) * input.size(1);
  return gates_of(input, hidden) +
         rows * (kWide * row_of(std::max(input.size(2), hidden)) + kNarrow * row_of(hidden));
}

Tensor floats(at::IntArrayRef sizes, const Tensor& like) {
  return at::empty(sizes, like.options());
}

// input [T, N, F] -> [T, N, hidden], [N, hidden] twice, and the workspace.
std::tuple<Tensor, Tensor, Tensor, Tensor> rnn_layer(const Tensor& input,
                                                     const Tensor& weight0,
                                                     const Tensor& weight1,
                                                     const Tensor& /*bias0*/,
                                                     const Tensor& /*bias1*/,
                                                     const Tensor& hx,
                                                     const Tensor& cx,
                                                     bool /*reverse*/,
                                                     at::IntArrayRef /*batch_sizes*/,
                                                     int64_t /*mode*/,
                                                     int64_t hidden,
                                                     int64_t /*num_layers*/,
                                                     bool /*has_biases*/,
                                                     bool /*bidirectional*/,
                                                     bool /*batch_first*/,
                                                     bool train) {
  Tensor output = floats({input.size(0), input.size(1), hidden}, input);
  Tensor hy = at::empty_like(hx), cy = at::empty_like(cx);
  Tensor workspace = floats({train ? workspace_of(input, hidden) : 0}, input);
  const Tensor weights = floats({weight0.numel() + weight1.numel()}, input);
  const Tensor scratch = floats({gates_of(input, hidden)}, input);
  return {std::move(output), std::move(hy), std::move(cy), std::move(workspace)};
}

using Seven = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

Seven rnn_layer_backward(const Tensor& input,
                         const Tensor& weight0,
                         const Tensor& weight1,
                         const Tensor& bias0,
                         const Tensor& /*bias1*/,
                         const Tensor& hx,
                         const Tensor& cx,
                         const Tensor& output,
                         const Tensor&,
                         const Tensor&,
                         const std::optional<Tensor>& /*grad_output*/,
                         const std::optional<Tensor>&,
                         const std::optional<Tensor>&,
                         bool,
                         int64_t,
                         int64_t hidden,
                         int64_t,
                         bool,
                         bool,
                         bool,
                         at::IntArrayRef,
                         bool,
                         const Tensor& /*workspace*/) {
  const Tensor grad = floats(output.sizes(), output);
  const Tensor of_states = floats({2 * hx.numel()}, hx);
  Seven gradients{floats(input.sizes(), input),
                  floats(weight0.sizes(), weight0),
                  floats(weight1.sizes(), weight1),
                  floats(bias0.sizes(), bias0),
                  floats(bias0.sizes(), bias0),
                  at::empty_like(hx),
                  at::empty_like(cx)};
  const Tensor weights = floats({2 * (weight0.numel() + weight1.numel())}, input);
  const Tensor scratch = floats({gates_of(input, hidden)}, input);
  return gradients;
}

/// at::lstm() of tensors that the CPU's kernel takes, and of others as if it did.
// input [T, N, F], or [N, T, F] if the batch is first; states [layers * directions, N, hidden]
std::tuple<Tensor, Tensor, Tensor> lstm(const Tensor& input,
                                        at::TensorList states,
                                        at::TensorList weights,
                                        bool has_biases,
                                        int64_t layers,
                                        double dropout,
                                        bool train,
                                        bool bidirectional,
                                        bool batch_first) {
  constexpr int64_t kLstmMode = 2;
  const int64_t directions = bidirectional ? 2 : 1;
  const size_t per_direction = has_biases ? 4 : 2;
  Tensor output = (batch_first ? input.transpose(0, 1) : input).contiguous();
  std::vector<Tensor> hy, cy;
  for (int64_t layer = 0; layer < layers; ++layer) {
    std::vector<Tensor> outputs;
    for (int64_t direction = 0; direction < directions; ++direction) {
      const int64_t at = layer * directions + direction;
      const at::TensorList own =
          weights.slice(static_cast<size_t>(at) * per_direction, per_direction);
      const Tensor no_bias = has_biases ? Tensor() : at::empty({own[0].size(0)}, own[0].options());
      auto [made, h, c, workspace] = at::mkldnn_rnn_layer(output,
                                                          own[0],
                                                          own[1],
                                                          has_biases ? own[2] : no_bias,
                                                          has_biases ? own[3] : no_bias,
                                                          states[0].select(0, at),
                                                          states[1].select(0, at),
                                                          direction == 1,
                                                          {},
                                                          kLstmMode,
                                                          states[0].size(2),
                                                          layers,
                                                          has_biases,
                                                          bidirectional,
                                                          batch_first,
                                                          train);
      outputs.push_back(std::move(made));
      hy.push_back(std::move(h));
      cy.push_back(std::move(c));
    }
    output = outputs.size() == 1 ? outputs[0] : at::cat(outputs, -1);
    if (dropout > 0 && train && layer + 1 < layers) output = at::dropout(output, dropout, true);
  }
  if (batch_first) output = output.transpose(0, 1);
  return {output, at::stack(hy), at::stack(cy)};
}

}  // namespace

void add_meta_recurrent(MetaLibrary& library) {
  library.add("mkldnn_rnn_layer", &rnn_layer);
  library.add("mkldnn_rnn_layer_backward", &rnn_layer_backward);
  library.add_with_gradients("lstm.input", &lstm);
}

}  // namespace muster::memory
