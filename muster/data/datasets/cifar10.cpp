// CIFAR-10: 50,000 + 10,000 colour images of 32 x 32 in 10 classes. Krizhevsky 2009, "Learning multiple
// layers of features from tiny images".
#include "muster/base/error.h"
#include "muster/data/sets/cifar_files.h"

namespace muster::data {
namespace {

struct Cifar10Options {};

constexpr std::string_view kCifar10Hint =
    "unpack the binary version, cifar-10-binary.tar.gz, and name its folder (muster train: "
    "--data-dir)";

std::shared_ptr<const Dataset> open_cifar10(const DatasetRequest& request) {
  resolve_params<Cifar10Options>({}, request.params, "dataset cifar10");
  if (request.data_dir.empty()) {
    throw usage_error({.refused = "dataset cifar10 without a folder",
                       .rule = "CIFAR-10 is in no Debian package, so it has no default place",
                       .hint = std::string(kCifar10Hint)});
  }
  // Mean and deviation over all pixels of the training split.
  return read_cifar_files(request.data_dir,
                          request.split,
                          CifarLabels::kTen,
                          {.name = "cifar10",
                           .mean = {0.4914, 0.4822, 0.4465},
                           .standard_deviation = {0.2470, 0.2435, 0.2616}},
                          kCifar10Hint);
}

}  // namespace

extern constinit const DatasetEntry cifar10_entry{
    .name = "cifar10",
    .help = "60,000 colour 32x32 images in 10 classes, binary version (needs --data-dir)",
    .open = &open_cifar10,
};

}  // namespace muster::data
