// MNIST: 60,000 + 10,000 grey images of handwritten digits. LeCun, Cortes, Burges.
#include "muster/data/sets/mnist_files.h"

namespace muster::data {
namespace {

struct MnistOptions {};

constexpr std::string_view kMnistHint =
    "download train-images-idx3-ubyte.gz and its three sisters (mirror: "
    "https://ossci-datasets.s3.amazonaws.com/mnist/) "
    "and name their folder (muster train: --data-dir)";

std::shared_ptr<const Dataset> open_mnist(const DatasetRequest& request) {
  resolve_params<MnistOptions>({}, request.params, "dataset mnist");
  if (request.data_dir.empty()) {
    throw usage_error({.refused = "dataset mnist without a folder",
                       .rule = "MNIST is in no Debian package, so it has no default place",
                       .hint = std::string(kMnistHint)});
  }
  // Mean and deviation over all pixels of the training split.
  return read_mnist_files(request.data_dir,
                          request.split,
                          {.name = "mnist",
                           .sample_shape = {1, 28, 28},
                           .classes = 10,
                           .mean = {0.1307},
                           .standard_deviation = {0.3081}},
                          kMnistHint);
}

}  // namespace

extern constinit const DatasetEntry mnist_entry{
    .name = "mnist",
    .help = "70,000 grey 28x28 images of digits (needs --data-dir)",
    .open = &open_mnist,
};

}  // namespace muster::data
