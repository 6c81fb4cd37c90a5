// CIFAR-100: 50,000 + 10,000 colour images of 32 x 32 in 100 classes, of which five make a coarse one.
// Krizhevsky 2009, "Learning multiple layers of features from tiny images".
#include "muster/base/error.h"
#include "muster/data/sets/cifar_files.h"

namespace muster::data {
namespace {

struct Cifar100Options {
  std::string labels = "fine";
};

constexpr Param kCifar100Params[] = {
    param<&Cifar100Options::labels>("labels", "fine: 100 classes; coarse: 20"),
};

constexpr std::string_view kCifar100Hint =
    "unpack the binary version, cifar-100-binary.tar.gz, and name its folder (muster train: "
    "--data-dir)";

std::shared_ptr<const Dataset> open_cifar100(const DatasetRequest& request) {
  const auto options =
      resolve_params<Cifar100Options>(kCifar100Params, request.params, "dataset cifar100");
  if (options.labels != "fine" && options.labels != "coarse") {
    throw usage_error({.refused = "dataset cifar100 parameter \"labels\"",
                       .rule = "fine or coarse",
                       .value = '"' + options.labels + '"'});
  }
  if (request.data_dir.empty()) {
    throw usage_error({.refused = "dataset cifar100 without a folder",
                       .rule = "CIFAR-100 is in no Debian package, so it has no default place",
                       .hint = std::string(kCifar100Hint)});
  }
  // Mean and deviation over all pixels of the training split.
  return read_cifar_files(
      request.data_dir,
      request.split,
      options.labels == "fine" ? CifarLabels::kHundredFine : CifarLabels::kHundredCoarse,
      {.name = "cifar100",
       .mean = {0.5071, 0.4865, 0.4409},
       .standard_deviation = {0.2673, 0.2564, 0.2762}},
      kCifar100Hint);
}

}  // namespace

extern constinit const DatasetEntry cifar100_entry{
    .name = "cifar100",
    .help = "60,000 colour 32x32 images in 100 classes, binary version (needs --data-dir)",
    .params = kCifar100Params,
    .open = &open_cifar100,
};

}  // namespace muster::data
