// Images kept as bytes and turned into normalised floats when a batch is made.
#pragma once

#include <memory>
#include <optional>

#include "muster/data/dataset.h"
#include "muster/data/pixel_table.h"

namespace muster::data {

/// Labelled 8-bit images in memory, a quarter of the size that they have as floats.
///
/// A batch is float32, bit for bit what torchvision's ToTensor and Normalize give: x/255, then (… -
/// mean) / std, each step rounded to float32. Since a pixel has 256 values, the three steps are
/// done once per value and channel when the dataset is made; a batch then is one table look-up per
/// pixel, written straight to its place.
class ImageDataset final : public Dataset {
 public:
  /// `images` // [N, C, H, W] uint8, `labels` // [N] uint8 or int64, 0 … spec.classes-1; both on
  /// the CPU. spec.sample_shape is {C, H, W}; spec.mean and spec.standard_deviation hold one number
  /// per channel, or are empty. Throws a usage error if shapes, types or numbers of samples do not
  /// fit, a label is not below the number of classes, or a standard deviation is not positive.
  ImageDataset(DataSpec spec, at::Tensor images, at::Tensor labels);

  int64_t size() const override;
  DataSpec spec() const override { return spec_; }
  uint32_t fingerprint() const override;

  const at::Tensor& images() const { return images_; }  ///< [N, C, H, W] uint8
  const at::Tensor& labels() const { return labels_; }  ///< [N] int64

  at::Tensor targets() const override { return labels_; }
  /// "data" // [B, C, H, W] uint8
  std::shared_ptr<const Dataset> before_normalising() const override;

 private:
  Batch load(std::span<const int64_t> indices, const SampleContext& context) const override;

  DataSpec spec_;
  at::Tensor images_;
  at::Tensor labels_;
  std::optional<PixelTable> table_;
};

}  // namespace muster::data
