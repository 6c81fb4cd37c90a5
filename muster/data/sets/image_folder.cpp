#include "muster/data/sets/image_folder.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <utility>

#include <ATen/ops/_upsample_bilinear2d_aa.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/data/collate.h"
#include "muster/data/image_parts.h"
#include "muster/data/in_hand.h"
#include "muster/formats/crc32.h"
#include "muster/formats/image/folder_survey.h"

namespace muster::data {
namespace {

namespace fs = std::filesystem;

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

void check_folder_options(const ImageFolderOptions& options) {
  const auto refuse = [](std::string what, std::string rule, std::string value) {
    throw usage_error(
        {.refused = std::move(what), .rule = std::move(rule), .value = std::move(value)});
  };
  constexpr int64_t kMostSize = 1 << 15;
  if (options.size < 0 || options.size > kMostSize)
    refuse("size of a folder's images", concat("0 … ", kMostSize), std::to_string(options.size));
  const size_t means = options.mean.size(), deviations = options.standard_deviation.size();
  const bool positive =
      std::ranges::all_of(options.standard_deviation, [](double value) { return value > 0; });
  if (means != deviations || (means != 0 && means != 3) || !positive)
    refuse("mean and deviation of a folder's images",
           "three numbers each, the deviations above 0, or none",
           concat(means, " and ", deviations));
}

/// The files' classes by the given numbers.
void number_classes(formats::ClassFolders& files, const std::vector<std::string>& classes) {
  std::map<std::string, int64_t, std::less<>> numbers;
  for (const std::string& name : classes)
    numbers.emplace(name, static_cast<int64_t>(numbers.size()));
  std::vector<int64_t> number_of;
  for (const std::string& name : files.classes) {
    const auto number = numbers.find(name);
    if (number == numbers.end()) {
      throw usage_error({.refused = concat("folder ", (files.root / name).string()),
                         .rule = concat("the classes are ", join(classes, ", ")),
                         .hint = suggestion(name, classes)});
    }
    number_of.push_back(number->second);
  }
  for (formats::ClassFile& file : files.files)
    file.label = number_of[static_cast<size_t>(file.label)];
  files.classes = classes;
}

}  // namespace

/// The samples as bytes.
class ImageFolder::Pixels final : public Dataset, private ImageParts {
 public:
  Pixels(const fs::path& root, ImageFolderOptions options)
      : options_(std::move(options)), files_(formats::list_class_folders(root)) {
    check_folder_options(options_);
    if (!options_.classes.empty()) number_classes(files_, options_.classes);
    if (options_.bad_files == BadFiles::kSkip) skip_bad_files();
    std::vector<int64_t> labels;
    labels.reserve(files_.files.size());
    for (const formats::ClassFile& file : files_.files) labels.push_back(file.label);
    targets_ = at::tensor(labels, at::kLong);
  }

  int64_t size() const override { return static_cast<int64_t>(files_.files.size()); }
  DataSpec spec() const override { return spec_of(at::kByte); }
  DataSpec spec_of(at::ScalarType dtype) const {
    return {.name = "folder " + files_.root.string(),
            .sample_shape = {3, options_.size, options_.size},
            .classes = static_cast<int64_t>(files_.classes.size()),
            .class_names = files_.classes,
            .dtype = dtype,
            .mean = options_.mean,
            .standard_deviation = options_.standard_deviation,
            .kind = DataKind::kImage};
  }
  at::Tensor targets() const override { return targets_; }
  bool is_by_sample() const override { return options_.size == 0; }
  std::vector<std::string> remarks() const override { return remarks_; }
  /// Whether a file is bad hangs on all of it, where one that is has a substitute.
  const ImageParts* image_parts() const override {
    const bool is_same = is_by_sample() && options_.bad_files != BadFiles::kSubstitute &&
                         !options_.decoding.keep_damaged;
    return is_same ? this : nullptr;
  }
  const formats::ClassFolders& files() const { return files_; }

  uint32_t fingerprint() const override {
    std::call_once(fingerprint_once_, [this] { fingerprint_ = fingerprint_of_files(); });
    return fingerprint_;
  }

 private:
  uint32_t fingerprint_of_files() const {
    uint32_t sum = 0;
    for (const formats::ClassFile& file : files_.files)
      sum = formats::crc32_of(concat(file.path, '\n', file.label, '\n'), sum);
    const size_t all = files_.files.size(), count = std::min<size_t>(all, 16);
    for (size_t i = 0; i < count; ++i) {
      const fs::path path = files_.path_of(all / count * i + all % count * i / count);
      std::error_code ignored;  // one that cannot be read is bad, which is for the policy
      if (fs::is_regular_file(path, ignored)) sum = formats::crc32_of(read_file(path), sum);
    }
    return sum;
  }

  Batch load(std::span<const int64_t> indices, const SampleContext& context) const override {
    if (is_by_sample()) return collate(load_samples(indices, context));
    const auto rows = static_cast<int64_t>(indices.size());
    Batch batch{.tensors = {{"data",
                             at::empty({rows, 3, options_.size, options_.size},
                                       context.options(at::kByte))},
                            {"target", at::empty({rows}, context.options(at::kLong))}},
                .indices = {indices.begin(), indices.end()}};
    auto* target = batch["target"].mutable_data_ptr<int64_t>();
    for (int64_t row = 0; row < rows; ++row) {
      auto [image, label] = read(indices[static_cast<size_t>(row)]);
      batch["data"].select(0, row).copy_(fitted_to_square(image, options_.size));
      *target++ = label;
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
    const auto at = static_cast<size_t>(index);
    note_file(index, at);
    try {
      return sample_of(
          index,
          {tensor_of(formats::read_image_part(files_.path_of(at), choose, options_.decoding)),
           files_.files[at].label});
    } catch (const Error& error) {
      throw of_sample(index, error);
    }
  }

  struct Read {
    at::Tensor image;  // [3, H, W] uint8
    int64_t label;
  };

  static Sample sample_of(int64_t index, Read read) {
    return {.tensors = {{"data", std::move(read.image)},
                        {"target", at::scalar_tensor(read.label, at::kLong)}},
            .index = index};
  }

  Read read(int64_t index) const {
    auto at = static_cast<size_t>(index);
    for (size_t tried = 0;; ++tried) {
      note_file(index, at);
      try {
        return {tensor_of(formats::read_image(files_.path_of(at), options_.decoding)),
                files_.files[at].label};
      } catch (const Error& error) {
        const bool goes_on =
            options_.bad_files == BadFiles::kSubstitute && tried + 1 < files_.files.size();
        if (!goes_on) throw of_sample(index, error);
      }
      at = (at + 1) % files_.files.size();
    }
  }

  void note_file(int64_t index, size_t at) const {
    note_in_hand([&] { return concat("sample ", index, ", file ", files_.path_of(at).string()); });
  }

  Error of_sample(int64_t index, const Error& error) const {
    ErrorText text = error.text();
    text.refused = concat("sample ", index, " of ", files_.root.string(), ": ", text.refused);
    if (options_.bad_files == BadFiles::kRaise)
      text.hint =
          "mend or remove the file, or go on without such files: bad_files=skip or substitute";
    return {error.kind(), text};
  }

  void skip_bad_files() {
    const auto surveyed = formats::survey_files(files_, 0, options_.decoding.max_pixels);
    const size_t all = surveyed.size();
    std::vector<formats::ClassFile> good;
    std::vector<std::string> named;
    std::vector<int64_t> files_of_class(files_.classes.size());  // a test folder may lack classes
    for (const formats::ClassFile& file : files_.files)
      ++files_of_class[static_cast<size_t>(file.label)];
    for (size_t at = 0; at < all; ++at) {
      const bool is_damaged = !options_.decoding.keep_damaged && !surveyed[at].damage.empty();
      const bool is_bad = is_damaged || !surveyed[at].fault.empty();
      if (!is_bad) good.push_back(std::move(files_.files[at]));
      if (is_bad && named.size() < kBadFilesNamed) named.push_back(files_.files[at].path);
    }
    files_.files = std::move(good);
    const size_t bad = all - files_.files.size();
    if (bad == 0) return;
    const std::string names = concat(join(named, ", "), bad > named.size() ? ", …" : "");
    if (files_.files.empty()) {
      throw environment_error({.refused = concat("folder of images ", files_.root.string()),
                               .rule = "one of its files can be decoded",
                               .value = concat("none of ", all, ": ", names),
                               .hint = "see `muster data info`"});
    }
    for (const formats::ClassFile& file : files_.files)
      files_of_class[static_cast<size_t>(file.label)] = 0;
    std::vector<std::string> emptied;
    for (size_t label = 0; label < files_of_class.size(); ++label)
      if (files_of_class[label] > 0) emptied.push_back(files_.classes[label]);
    if (!emptied.empty()) {
      throw environment_error(
          {.refused = concat("folder of images ", files_.root.string()),
           .rule = "each class has a file that can be decoded",
           .value = concat("none in ", join(emptied, ", ")),
           .hint = "see `muster data info`; remove the folder of a class that has none"});
    }
    remarks_.push_back(
        concat(bad, " of ", all, " files in ", files_.root.string(), " are skipped: ", names));
  }

  ImageFolderOptions options_;
  formats::ClassFolders files_;
  at::Tensor targets_;  // [N] int64
  std::vector<std::string> remarks_;
  mutable std::once_flag fingerprint_once_;
  mutable uint32_t fingerprint_ = 0;
};

ImageFolder::ImageFolder(const fs::path& root, ImageFolderOptions options)
    : pixels_(std::make_shared<Pixels>(root, options)),
      table_(3, options.mean, options.standard_deviation) {}

int64_t ImageFolder::size() const { return pixels_->size(); }
DataSpec ImageFolder::spec() const { return pixels_->spec_of(at::kFloat); }
at::Tensor ImageFolder::targets() const { return pixels_->targets(); }
uint32_t ImageFolder::fingerprint() const { return pixels_->fingerprint(); }
bool ImageFolder::is_by_sample() const { return pixels_->is_by_sample(); }
std::shared_ptr<const Dataset> ImageFolder::before_normalising() const { return pixels_; }
std::vector<std::string> ImageFolder::remarks() const { return pixels_->remarks(); }
const formats::ClassFolders& ImageFolder::files() const { return pixels_->files(); }

Batch ImageFolder::load(std::span<const int64_t> indices, const SampleContext& context) const {
  if (is_by_sample()) return collate(load_samples(indices, context));
  SampleContext unpinned = context;  // the bytes stay here
  unpinned.pinned = false;
  Batch batch = pixels_->get(indices, unpinned);
  batch["data"] = table_.floats(batch["data"]);
  return batch;
}

std::vector<Sample> ImageFolder::load_samples(std::span<const int64_t> indices,
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
