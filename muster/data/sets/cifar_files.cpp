#include "muster/data/sets/cifar_files.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/formats/cifar.h"
#include "muster/formats/there_is.h"

namespace muster::data {
namespace {

namespace fs = std::filesystem;
using formats::CifarKind;

struct CifarNames {
  const char* archive;  ///< the folder that it unpacks to
  std::vector<std::string> train, test;
  const char* classes;
  size_t count;
};

CifarNames names_of(CifarLabels labels) {
  if (labels == CifarLabels::kTen) {
    CifarNames names{"cifar-10-batches-bin", {}, {"test_batch.bin"}, "batches.meta.txt", 10};
    for (int i = 1; i <= 5; ++i) names.train.push_back(concat("data_batch_", i, ".bin"));
    return names;
  }
  const bool is_fine = labels == CifarLabels::kHundredFine;
  return {"cifar-100-binary",
          {"train.bin"},
          {"test.bin"},
          is_fine ? "fine_label_names.txt" : "coarse_label_names.txt",
          is_fine ? size_t{100} : size_t{20}};
}

/// Nothing where there is no such file: classes are called by number then.
std::vector<std::string> read_class_names(const fs::path& path, size_t count) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return {};
  std::vector<std::string> names;
  for (const std::string& line : split(read_file(path), '\n')) {
    if (!trim(line).empty()) names.emplace_back(trim(line));
  }
  if (names.size() == count) return names;
  throw environment_error({.refused = concat("wrong content in ", path.string()),
                           .rule = concat("a line for each of ", count, " classes"),
                           .value = concat(names.size())});
}

}  // namespace

std::shared_ptr<const ImageDataset> read_cifar_files(
    const fs::path& folder, Split split, CifarLabels labels, DataSpec spec, std::string_view hint) {
  const CifarNames names = names_of(labels);
  std::error_code ignored;
  const fs::path in_archive = folder / names.archive;
  const fs::path& place = fs::is_directory(in_archive, ignored) ? in_archive : folder;
  const CifarKind kind = labels == CifarLabels::kTen ? CifarKind::kTen : CifarKind::kHundred;
  std::vector<formats::CifarRecords> files;
  int64_t samples = 0;
  for (const std::string& name : split == Split::kTrain ? names.train : names.test) {
    const fs::path path = place / name;
    if (!formats::there_is(path)) {
      throw usage_error(
          {.refused = concat("no such file: ", path.string()), .hint = std::string(hint)});
    }
    files.push_back(formats::read_cifar(path, kind));
    samples += static_cast<int64_t>(files.back().labels.size());
  }
  spec.sample_shape = {3, formats::kCifarSide, formats::kCifarSide};
  spec.classes = static_cast<int64_t>(names.count);
  spec.class_names = read_class_names(place / names.classes, names.count);
  const at::Tensor images =
      at::empty({samples, 3, formats::kCifarSide, formats::kCifarSide}, at::kByte);
  const at::Tensor targets = at::empty({samples}, at::kByte);
  auto* pixel = images.mutable_data_ptr<uint8_t>();
  auto* target = targets.mutable_data_ptr<uint8_t>();
  for (const formats::CifarRecords& file : files) {
    const auto& own = labels == CifarLabels::kHundredCoarse ? file.coarse_labels : file.labels;
    pixel = std::copy(file.pixels.begin(), file.pixels.end(), pixel);
    target = std::copy(own.begin(), own.end(), target);
  }
  return std::make_shared<ImageDataset>(std::move(spec), images, targets);
}

}  // namespace muster::data
