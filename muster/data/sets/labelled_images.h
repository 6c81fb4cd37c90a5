// Encoded images with their classes, decoded when a batch is made.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/data/dataset.h"
#include "muster/data/pixel_table.h"
#include "muster/formats/image/image.h"
#include "muster/formats/image/image_source.h"

namespace muster::data {

/// What becomes of a file that cannot be decoded.
enum class BadFiles {
  kRaise,  ///< the batch fails, with the file's name and the sample's number
  /// All files are decoded once when the dataset is made, and bad ones are no samples. That takes as
  /// long as reading every one of them, on all cores.
  kSkip,
  /// The next file that can be decoded stands in for it, with its own class: the same one in each
  /// epoch, for any number of workers and ranks.
  kSubstitute,
};

/// Of "raise", "skip" or "substitute"; nothing of another word.
std::optional<BadFiles> bad_files_of(std::string_view word);

struct LabelledImagesOptions {
  std::string name = "images";  ///< DataSpec::name
  /// Height and width of all samples: the shorter side is resized to it (bilinear with antialiasing, as
  /// torchvision's Resize of a tensor), then the middle is cut out (CenterCrop). 0: images are as large
  /// as they are, and the first transform has to make one size of them.
  int64_t size = 0;
  BadFiles bad_files = BadFiles::kRaise;
  formats::ImageOptions decoding = {};
  /// As ImageNet's are usually taken; both empty: pixels are 0 … 1.
  std::vector<double> mean = {0.485, 0.456, 0.406};
  std::vector<double> standard_deviation = {0.229, 0.224, 0.225};
  std::string learned = {};               ///< Dataset::learned()
  std::vector<std::string> remarks = {};  ///< of whoever found the images
};

/// The images of a source, in its order, decoded by whoever makes a batch. "data" is [3, H, W] float32,
/// normalised; "target" the class, where images have one. Pixels are those of Pillow's convert("RGB").
/// before_normalising() has them as bytes.
class LabelledImages : public Dataset {
 public:
  /// Reads no image, but for BadFiles::kSkip. Throws a usage error for a size below 0, or mean and
  /// deviation that are not three numbers each; an environment error where all images of a class are
  /// to be skipped.
  explicit LabelledImages(std::shared_ptr<const formats::ImageSource> images,
                          const LabelledImagesOptions& options = {});

  int64_t size() const override;
  DataSpec spec() const override;
  at::Tensor targets() const override;
  /// Of all names and classes, and of the bytes of 16 files, spread evenly.
  uint32_t fingerprint() const override;
  bool is_by_sample() const override;
  std::string learned() const override;
  std::shared_ptr<const Dataset> before_normalising() const override;
  /// Also of files that could not be decoded so far, where others stood in for them.
  std::vector<std::string> remarks() const override;

  /// Which of the source's images are samples: all that were not skipped.
  const std::vector<size_t>& kept() const;
  /// "cat/1.jpg"
  std::string file_name(int64_t sample) const;
  /// Of some samples those in whose place others stand, sorted: all of them are decoded, on all cores. None but
  /// with BadFiles::kSubstitute.
  std::vector<int64_t> substituted_among(std::span<const int64_t> samples) const;

 private:
  class Pixels;

  Batch load(std::span<const int64_t> indices, const SampleContext& context) const override;
  std::vector<Sample> load_samples(std::span<const int64_t> indices,
                                   const SampleContext& context) const override;

  std::shared_ptr<const Pixels> pixels_;
  PixelTable table_;
};

}  // namespace muster::data
