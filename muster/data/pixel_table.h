// Bytes to normalised floats, as torchvision rounds them.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace muster::data {

/// The float for each byte and channel: x/255, then (… - mean) / deviation, each step rounded to
/// float32. A pixel has 256 values, so the three steps are done once per value.
class PixelTable {
 public:
  /// `mean` and `deviation` have a number per channel, or are both empty.
  PixelTable(int64_t channels,
             const std::vector<double>& mean,
             const std::vector<double>& deviation);

  /// `count` bytes of a channel.
  void look_up(int64_t channel, const uint8_t* from, int64_t count, float* to) const {
    const float* table = &table_[static_cast<size_t>(channel) * 256];
    for (int64_t i = 0; i < count; ++i) to[i] = table[from[i]];
  }

  /// pixels // [B, C, h, w] uint8  ->  [B, C, h, w] float32
  at::Tensor floats(const at::Tensor& pixels) const;
  /// The same of a whole batch's, in memory for it: batch_tensor().
  at::Tensor floats_of_batch(const at::Tensor& pixels, bool pinned) const;

 private:
  void fill(const at::Tensor& pixels, const at::Tensor& floats) const;

  int64_t channels_;
  std::vector<float> table_;  // [C][256]
};

}  // namespace muster::data
