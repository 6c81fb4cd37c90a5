#include "muster/data/sets/mnist_files.h"

#include <string>
#include <utility>

#include <ATen/ops/from_blob.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/formats/idx.h"
#include "muster/formats/there_is.h"

namespace muster::data {
namespace {

namespace fs = std::filesystem;

fs::path find_file(const fs::path& folder, const std::string& name, std::string_view hint) {
  for (const char* ending : {"", ".gz"}) {
    const fs::path path = folder / (name + ending);
    if (formats::there_is(path)) return path;
  }
  throw usage_error({.refused = concat("no such file: ", (folder / name).string(), " (or .gz)"),
                     .hint = std::string(hint)});
}

std::string show(const formats::IdxArray& array) {
  std::string out;
  for (const int64_t dim : array.dims) out += concat(out.empty() ? "[" : ", ", dim);
  return concat(out, "] of type ", static_cast<int>(array.type));
}

Error misplaced(const fs::path& path, std::string rule, std::string value) {
  return environment_error({.refused = concat("wrong content in ", path.string()),
                            .rule = std::move(rule),
                            .value = std::move(value),
                            .hint = "were two files swapped, or taken from different datasets?"});
}

at::Tensor to_tensor(formats::IdxArray array) {
  uint8_t* start = const_cast<uint8_t*>(array.bytes.data());
  // The tensor owns the storage from here on; its elements begin behind the header.
  uint8_t* storage = array.storage.release();
  return at::from_blob(
      start, array.dims, [storage](void*) { delete[] storage; }, at::kByte);
}

}  // namespace

std::shared_ptr<const ImageDataset> read_mnist_files(const fs::path& folder,
                                                     Split split,
                                                     const DataSpec& spec,
                                                     std::string_view hint) {
  const std::string prefix = split == Split::kTrain ? "train" : "t10k";
  const fs::path image_path = find_file(folder, prefix + "-images-idx3-ubyte", hint);
  const fs::path label_path = find_file(folder, prefix + "-labels-idx1-ubyte", hint);
  // Labels first: they are small, so a mix-up shows before the images are unpacked.
  formats::IdxArray labels = formats::read_idx(label_path);
  if (labels.type != formats::IdxType::kUint8 || labels.dims.size() != 1) {
    throw misplaced(label_path, "labels are [samples] of bytes (type 8)", show(labels));
  }
  formats::IdxArray images = formats::read_idx(image_path);
  if (images.type != formats::IdxType::kUint8 || images.dims.size() != 3 ||
      images.dims[1] != spec.height() || images.dims[2] != spec.width()) {
    throw misplaced(
        image_path,
        concat("images are [samples, ", spec.height(), ", ", spec.width(), "] of bytes (type 8)"),
        show(images));
  }
  const int64_t samples = images.dims[0];
  if (samples != labels.dims[0]) {
    throw misplaced(label_path,
                    concat("as many labels as images in ", image_path.filename().string()),
                    concat(labels.dims[0], " labels, ", samples, " images"));
  }
  for (int64_t i = 0; i < samples; ++i) {
    const int label = labels.bytes[static_cast<size_t>(i)];
    if (label < spec.classes) continue;
    throw misplaced(label_path,
                    concat("labels run from 0 to ", spec.classes - 1),
                    concat(label, " for sample ", i));
  }
  return std::make_shared<ImageDataset>(
      spec, to_tensor(std::move(images)).unsqueeze(1), to_tensor(std::move(labels)));
}

}  // namespace muster::data
