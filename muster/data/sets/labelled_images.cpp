#include "muster/data/sets/labelled_images.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>
#include <set>
#include <utility>

#include <ATen/ops/_upsample_bilinear2d_aa.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/batch_memory.h"
#include "muster/data/collate.h"
#include "muster/data/image_parts.h"
#include "muster/data/in_hand.h"
#include "muster/formats/crc32.h"
#include "muster/formats/image/folder_survey.h"

namespace muster::data {
namespace {

constexpr size_t kBadFilesNamed = 3;

/// The image's memory as a tensor, which frees it. [3, H, W], the channels beside each other in memory.
at::Tensor tensor_of(formats::Image image) {
  uint8_t* pixels = image.pixels.release();
  return at::from_blob(
             pixels,
             {image.height, image.width, 3},
             [](void* memory) { delete[] static_cast<uint8_t*>(memory); },
             at::kByte)
      .permute({2, 0, 1});
}

/// torchvision's Resize(size) and CenterCrop(size). image // [3, H, W]
at::Tensor fitted_to_square(const at::Tensor& image, int64_t size) {
  const int64_t height = image.size(1), width = image.size(2), shorter = std::min(height, width);
  at::Tensor resized = image;
  if (shorter != size) {
    resized = at::_upsample_bilinear2d_aa(image.unsqueeze(0),
                                          {size * height / shorter, size * width / shorter},
                                          /*align_corners=*/false)
                  .squeeze(0);
  }
  const auto middle = [size](int64_t all) {  // halves go to the even number
    return static_cast<int64_t>(std::lrint(static_cast<double>(all - size) / 2));
  };
  return resized.narrow(1, middle(resized.size(1)), size).narrow(2, middle(resized.size(2)), size);
}

void check_image_options(const LabelledImagesOptions& options) {
  const auto refuse = [](std::string what, std::string rule, std::string value) {
    throw usage_error(
        {.refused = std::move(what), .rule = std::move(rule), .value = std::move(value)});
  };
  constexpr int64_t kMostSize = 1 << 15;
  if (options.size < 0 || options.size > kMostSize)
    refuse("size of images", concat("0 … ", kMostSize), std::to_string(options.size));
  const size_t means = options.mean.size(), deviations = options.standard_deviation.size();
  const auto is_finite = [](double value) { return std::isfinite(value); };
  const bool positive =
      std::ranges::all_of(options.standard_deviation, [](double value) { return value > 0; });
  const bool finite = std::ranges::all_of(options.standard_deviation, is_finite) &&
                      std::ranges::all_of(options.mean, is_finite);
  if (means != deviations || (means != 0 && means != 3) || !positive || !finite)
    refuse("mean and deviation of images",
           "three numbers each, all finite, the deviations above 0, or none",
           concat(means, " and ", deviations));
}

/// Some of a source's images.
class ChosenImages final : public formats::ImageSource {
 public:
  ChosenImages(const formats::ImageSource& all, const std::vector<size_t>& chosen)
      : all_(all), chosen_(chosen) {}

  std::string title() const override { return all_.title(); }
  std::string place() const override { return all_.place(); }
  size_t size() const override { return chosen_.size(); }
  int64_t classes() const override { return all_.classes(); }
  std::vector<std::string> class_names() const override { return all_.class_names(); }
  bool has_labels() const override { return all_.has_labels(); }
  int64_t label(size_t at) const override { return all_.label(chosen_[at]); }
  std::string name(size_t at) const override { return all_.name(chosen_[at]); }
  std::string full_name(size_t at) const override { return all_.full_name(chosen_[at]); }
  std::string read(size_t at) const override { return all_.read(chosen_[at]); }

 private:
  const formats::ImageSource& all_;
  const std::vector<size_t>& chosen_;
};

}  // namespace

std::optional<BadFiles> bad_files_of(std::string_view word) {
  if (word == "raise") return BadFiles::kRaise;
  if (word == "skip") return BadFiles::kSkip;
  if (word == "substitute") return BadFiles::kSubstitute;
  return std::nullopt;
}

/// The samples as bytes.
class LabelledImages::Pixels final : public Dataset, private ImageParts {
 public:
  Pixels(std::shared_ptr<const formats::ImageSource> images, LabelledImagesOptions options)
      : images_(std::move(images)), options_(std::move(options)), remarks_(options_.remarks) {
    check_image_options(options_);
    kept_.resize(images_->size());
    std::iota(kept_.begin(), kept_.end(), 0);
    if (options_.decoding.least_side > 0)
      remarks_.push_back(
          concat("JPEGs in ",
                 images_->place(),
                 " are decoded at 1/2, 1/4 or 1/8 where both sides stay ",
                 options_.decoding.least_side,
                 " or more (decode=fast): their pixels are not those of the whole image, resized"));
    if (options_.bad_files == BadFiles::kSkip) skip_bad_files();
    if (!images_->has_labels()) return;
    std::vector<int64_t> labels;
    labels.reserve(kept_.size());
    for (const size_t at : kept_) labels.push_back(images_->label(at));
    targets_ = at::tensor(labels, at::kLong);
  }

  int64_t size() const override { return static_cast<int64_t>(kept_.size()); }
  DataSpec spec() const override { return spec_of(at::kByte); }
  DataSpec spec_of(at::ScalarType dtype) const {
    return {.name = options_.name,
            .sample_shape = {3, options_.size, options_.size},
            .classes = images_->classes(),
            .class_names = images_->class_names(),
            .dtype = dtype,
            .mean = options_.mean,
            .standard_deviation = options_.standard_deviation,
            .kind = DataKind::kImage};
  }
  at::Tensor targets() const override { return targets_; }
  bool is_by_sample() const override { return options_.size == 0; }
  std::string learned() const override { return options_.learned; }
  std::vector<std::string> remarks() const override {
    std::vector<std::string> all = remarks_;
    const std::lock_guard lock(substituted_mutex_);
    if (substituted_.empty()) return all;
    std::vector<std::string> named;
    for (const size_t at : substituted_) {
      if (named.size() == kBadFilesNamed) break;
      named.push_back(images_->name(at));
    }
    all.push_back(concat(substituted_.size(),
                         " of ",
                         kept_.size(),
                         " files in ",
                         images_->place(),
                         " could not be decoded, and others stood in for them: ",
                         join(named, ", "),
                         substituted_.size() > named.size() ? ", …" : ""));
    return all;
  }
  std::string file_name(int64_t sample) const {
    return images_->name(kept_.at(static_cast<size_t>(sample)));
  }
  std::vector<int64_t> substituted_among(std::span<const int64_t> samples) const {
    if (options_.bad_files != BadFiles::kSubstitute) return {};
    std::vector<size_t> chosen;
    for (const int64_t sample : samples) chosen.push_back(kept_.at(static_cast<size_t>(sample)));
    const auto surveyed =
        formats::survey_images(ChosenImages(*images_, chosen), 0, options_.decoding.max_pixels);
    std::vector<int64_t> bad;
    for (size_t i = 0; i < surveyed.size(); ++i)
      if (is_bad(surveyed[i])) bad.push_back(samples[i]);
    std::ranges::sort(bad);
    return bad;
  }
  /// Whether a file is bad hangs on all of it, where one that is has a substitute.
  const ImageParts* image_parts() const override {
    const bool is_same = is_by_sample() && options_.bad_files != BadFiles::kSubstitute &&
                         !options_.decoding.keep_damaged && options_.decoding.least_side == 0;
    return is_same ? this : nullptr;
  }
  const std::vector<size_t>& kept() const { return kept_; }

  uint32_t fingerprint() const override {
    std::call_once(fingerprint_once_, [this] { fingerprint_ = fingerprint_of_files(); });
    return fingerprint_;
  }

 private:
  uint32_t fingerprint_of_files() const {
    uint32_t sum = 0;
    for (const size_t at : kept_) {
      const int64_t label = targets_.defined() ? images_->label(at) : -1;
      sum = formats::crc32_of(concat(images_->name(at), '\n', label, '\n'), sum);
    }
    const size_t all = kept_.size(), count = std::min<size_t>(all, 16);
    for (size_t i = 0; i < count; ++i) {
      try {
        sum =
            formats::crc32_of(images_->read(kept_[all / count * i + all % count * i / count]), sum);
      } catch (const Error&) {  // NOLINT(bugprone-empty-catch): it is bad, which is for the policy
      }
    }
    return sum;
  }

  Batch load(std::span<const int64_t> indices, const SampleContext& context) const override {
    if (is_by_sample()) return collate(load_samples(indices, context));
    const auto rows = static_cast<int64_t>(indices.size());
    Batch batch{
        .tensors = {{"data",
                     batch_tensor(
                         {rows, 3, options_.size, options_.size}, at::kByte, context.pinned)}},
        .indices = {indices.begin(), indices.end()}};
    if (targets_.defined())
      batch.tensors.emplace_back("target", at::empty({rows}, context.options(at::kLong)));
    auto* target = targets_.defined() ? batch["target"].mutable_data_ptr<int64_t>() : nullptr;
    for (int64_t row = 0; row < rows; ++row) {
      auto [image, label] = read(indices[static_cast<size_t>(row)]);
      batch["data"].select(0, row).copy_(fitted_to_square(image, options_.size));
      if (target != nullptr) *target++ = label;
    }
    return batch;
  }

  std::vector<Sample> load_samples(std::span<const int64_t> indices,
                                   const SampleContext& context) const override {
    if (!is_by_sample()) return rows_of(load(indices, context));
    std::vector<Sample> samples;
    for (const int64_t index : indices) samples.push_back(sample_of(index, read(index)));
    return samples;
  }

  Sample read_part(int64_t index, const formats::ChooseRegion& choose) const override {
    const size_t at = kept_[static_cast<size_t>(index)];
    note_file(index, at);
    try {
      const std::string file = images_->read(at);
      return sample_of(index,
                       {tensor_of(formats::decode_image_part(
                            {reinterpret_cast<const uint8_t*>(file.data()), file.size()},
                            images_->full_name(at),
                            choose,
                            options_.decoding)),
                        targets_.defined() ? images_->label(at) : -1});
    } catch (const Error& error) {
      throw of_sample(index, error);
    }
  }

  struct Read {
    at::Tensor image;  // [3, H, W] uint8
    int64_t label;     // -1: it has none
  };

  Sample sample_of(int64_t index, Read read) const {
    tensor::NamedTensorList tensors{{"data", std::move(read.image)}};
    if (targets_.defined())
      tensors = {tensors[0], {"target", at::scalar_tensor(read.label, at::kLong)}};
    return {.tensors = std::move(tensors), .index = index};
  }

  Read read(int64_t index) const {
    auto at = static_cast<size_t>(index);
    for (size_t tried = 0;; ++tried) {
      note_file(index, kept_[at]);
      try {
        const std::string file = images_->read(kept_[at]);
        return {tensor_of(formats::decode_image(
                    {reinterpret_cast<const uint8_t*>(file.data()), file.size()},
                    images_->full_name(kept_[at]),
                    options_.decoding)),
                targets_.defined() ? images_->label(kept_[at]) : -1};
      } catch (const Error& error) {
        const bool goes_on =
            options_.bad_files == BadFiles::kSubstitute && tried + 1 < kept_.size();
        if (!goes_on) throw of_sample(index, error);
        const std::lock_guard lock(substituted_mutex_);
        substituted_.insert(kept_[at]);
      }
      at = (at + 1) % kept_.size();
    }
  }

  void note_file(int64_t index, size_t at) const {
    note_in_hand([&] { return concat("sample ", index, ", file ", images_->full_name(at)); });
  }

  Error of_sample(int64_t index, const Error& error) const {
    ErrorText text = error.text();
    text.refused = concat("sample ", index, " of ", images_->place(), ": ", text.refused);
    if (options_.bad_files == BadFiles::kRaise)
      text.hint =
          "mend or remove the file, or go on without such files: bad_files=skip or substitute";
    return environment_error(std::move(text));  // it was there when the samples were listed
  }

  bool is_bad(const formats::SurveyedFile& file) const {
    return !file.fault.empty() || (!options_.decoding.keep_damaged && !file.damage.empty());
  }

  void skip_bad_files() {
    const auto surveyed = formats::survey_images(*images_, 0, options_.decoding.max_pixels);
    const size_t all = surveyed.size();
    std::vector<std::string> named;
    std::erase_if(kept_, [&](size_t at) {
      const bool skipped = is_bad(surveyed[at]);
      if (skipped && named.size() < kBadFilesNamed) named.push_back(images_->name(at));
      return skipped;
    });
    const size_t bad = all - kept_.size();
    if (bad == 0) return;
    const std::string names = concat(join(named, ", "), bad > named.size() ? ", …" : "");
    if (kept_.empty()) {
      throw environment_error({.refused = images_->title(),
                               .rule = "one of its files can be decoded",
                               .value = concat("none of ", all, ": ", names),
                               .hint = "see `muster data info`"});
    }
    if (images_->has_labels()) refuse_emptied_classes();
    remarks_.push_back(
        concat(bad, " of ", all, " files in ", images_->place(), " are skipped: ", names));
  }

  /// Classes whose files are all bad; a test split may lack some from the beginning.
  void refuse_emptied_classes() const {
    std::vector<char> had(static_cast<size_t>(images_->classes())), has(had);
    for (size_t at = 0; at < images_->size(); ++at)
      had[static_cast<size_t>(images_->label(at))] = 1;
    for (const size_t at : kept_) has[static_cast<size_t>(images_->label(at))] = 1;
    std::vector<std::string> emptied;
    for (size_t label = 0; label < had.size(); ++label)
      if (had[label] != has[label])
        emptied.push_back(images_->class_name(static_cast<int64_t>(label)));
    if (emptied.empty()) return;
    throw environment_error({.refused = images_->title(),
                             .rule = "each class has a file that can be decoded",
                             .value = concat("none in ", join(emptied, ", ")),
                             .hint = "see `muster data info`; leave a class that has none away"});
  }

  std::shared_ptr<const formats::ImageSource> images_;
  LabelledImagesOptions options_;
  std::vector<size_t> kept_;  // numbers of the images that are samples
  at::Tensor targets_;        // [N] int64, or undefined
  std::vector<std::string> remarks_;
  mutable std::mutex substituted_mutex_;
  mutable std::set<size_t> substituted_;  // bad ones that were asked for, by their numbers
  mutable std::once_flag fingerprint_once_;
  mutable uint32_t fingerprint_ = 0;
};

LabelledImages::LabelledImages(std::shared_ptr<const formats::ImageSource> images,
                               const LabelledImagesOptions& options)
    : pixels_(std::make_shared<Pixels>(std::move(images), options)),
      table_(3, options.mean, options.standard_deviation) {}

int64_t LabelledImages::size() const { return pixels_->size(); }
DataSpec LabelledImages::spec() const { return pixels_->spec_of(at::kFloat); }
at::Tensor LabelledImages::targets() const { return pixels_->targets(); }
uint32_t LabelledImages::fingerprint() const { return pixels_->fingerprint(); }
bool LabelledImages::is_by_sample() const { return pixels_->is_by_sample(); }
std::string LabelledImages::learned() const { return pixels_->learned(); }
std::shared_ptr<const Dataset> LabelledImages::before_normalising() const { return pixels_; }
std::vector<std::string> LabelledImages::remarks() const { return pixels_->remarks(); }
const std::vector<size_t>& LabelledImages::kept() const { return pixels_->kept(); }
std::string LabelledImages::file_name(int64_t sample) const { return pixels_->file_name(sample); }
std::vector<int64_t> LabelledImages::substituted_among(std::span<const int64_t> samples) const {
  return pixels_->substituted_among(samples);
}

Batch LabelledImages::load(std::span<const int64_t> indices, const SampleContext& context) const {
  if (is_by_sample()) return collate(load_samples(indices, context));
  SampleContext unpinned = context;  // the bytes stay here
  unpinned.pinned = false;
  Batch batch = pixels_->get(indices, unpinned);
  batch["data"] = table_.floats_of_batch(batch["data"], context.pinned);
  return batch;
}

std::vector<Sample> LabelledImages::load_samples(std::span<const int64_t> indices,
                                                 const SampleContext& context) const {
  if (!is_by_sample()) return rows_of(load(indices, context));
  std::vector<Sample> samples = pixels_->samples(indices, context);
  for (Sample& sample : samples) {
    at::Tensor& image = sample["data"];
    image = table_.floats(image.unsqueeze(0)).squeeze(0);
  }
  return samples;
}

}  // namespace muster::data
