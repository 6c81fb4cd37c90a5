// A classifier of sequences by an LSTM.
#pragma once

#include <vector>

#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include "muster/models/layers/dropout.h"
#include "muster/models/model.h"

namespace muster::models {

struct LstmOptions {
  int64_t hidden = 128;        ///< width of the state
  int64_t layers = 1;          ///< LSTMs on top of each other
  bool bidirectional = false;  ///< also reads backwards; the states are put side by side
  double dropout = 0;          ///< between layers and before the scores
  int64_t vocabulary = 0;      ///< above 0: the input is token ids below it, not images
  int64_t embedding = 128;     ///< width of a token's vector
  int64_t padding = -1;        ///< with a vocabulary: the id that fills sequences up; -1: none does
};

/// Reads a sequence and tells its class by the last layer's state after the last step. An image is
/// read as its rows from top to bottom: H steps of C * W numbers (channel by channel). Token ids
/// are read as they are. With a padding id, whatever of it stands at a sequence's end is not read:
/// its state is the one after its last other id (nn.utils.rnn.pack_padded_sequence), and backwards is
/// from there. A sequence of nothing else is read as one of them. Without one, sequences of a batch have
/// one length.
///
/// Parameters: as of a Python module with [embedding = nn.Embedding,] lstm = nn.LSTM(batch_first),
/// fc = nn.Linear: lstm.weight_ih_l0, lstm.weight_hh_l0, lstm.bias_ih_l0, lstm.bias_hh_l0,
/// lstm.weight_ih_l0_reverse, …; draws in its order. Source: Hochreiter and Schmidhuber 1997 with
/// the gates (input, forget, cell, output) and two biases of cuDNN and PyTorch.
class LstmImpl : public Classifier {
 public:
  /// With a vocabulary, `shape` only gives the classes. Throws a usage error for sizes below 1 or a
  /// dropout outside 0 … 1.
  explicit LstmImpl(const ImageShape& shape, const LstmOptions& options = {});

  /// // [N, C, H, W] floating point, or token ids [N, T] int64  ->  [N, classes]. "lstm", with the
  /// embedding in front of it, and "head".
  std::vector<ModelPart> parts() override;

 private:
  void add_lstm(int64_t features);
  at::Tensor features_of(const at::Tensor& input);
  at::Tensor last_state(const at::Tensor& sequence);
  at::Tensor last_state_of_padded(const at::Tensor& sequence, const at::Tensor& lengths);

  LstmOptions options_;
  torch::nn::Embedding embedding_{nullptr};
  std::shared_ptr<torch::nn::Module> lstm_;
  torch::nn::Linear fc_{nullptr};
  Dropout dropout_{nullptr};
};
TORCH_MODULE(Lstm);

}  // namespace muster::models
