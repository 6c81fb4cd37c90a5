#include "muster/data/pixel_table.h"

#include <ATen/ops/empty.h>

#include "muster/data/batch_memory.h"

namespace muster::data {

// The order and the roundings are torchvision's: functional.to_tensor divides by 255 and
// functional.normalize subtracts and divides in place, all in float32. Folding them to k*x+c would
// change the last bit of most values.
PixelTable::PixelTable(int64_t channels,
                       const std::vector<double>& mean,
                       const std::vector<double>& deviation)
    : channels_(channels) {
  for (size_t channel = 0; channel < static_cast<size_t>(channels); ++channel) {
    for (int byte = 0; byte < 256; ++byte) {
      float value = static_cast<float>(byte) / 255.0F;
      if (!mean.empty()) {
        value -= static_cast<float>(mean[channel]);
        value /= static_cast<float>(deviation[channel]);
      }
      table_.push_back(value);
    }
  }
}

at::Tensor PixelTable::floats(const at::Tensor& pixels) const {
  at::Tensor floats = at::empty(pixels.sizes(), at::kFloat);
  fill(pixels, floats);
  return floats;
}

at::Tensor PixelTable::floats_of_batch(const at::Tensor& pixels, bool pinned) const {
  at::Tensor floats = batch_tensor(pixels.sizes(), at::kFloat, pinned);
  fill(pixels, floats);
  return floats;
}

void PixelTable::fill(const at::Tensor& pixels, const at::Tensor& floats) const {
  const at::Tensor from = pixels.contiguous();
  const int64_t plane = from.size(2) * from.size(3);
  const uint8_t* bytes = from.const_data_ptr<uint8_t>();
  auto* to = floats.mutable_data_ptr<float>();
  for (int64_t row = 0; row < from.size(0); ++row) {
    for (int64_t channel = 0; channel < channels_; ++channel, bytes += plane, to += plane)
      look_up(channel, bytes, plane, to);
  }
}

}  // namespace muster::data
