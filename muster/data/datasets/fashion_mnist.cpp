// Fashion-MNIST: 60,000 + 10,000 grey images of 10 kinds of clothing. Xiao, Rasul, Vollgraf 2017,
// arXiv 1708.07747.
#include "muster/data/sets/mnist_files.h"

namespace muster::data {
namespace {

struct FashionMnistOptions {};

constexpr std::string_view kFashionMnistHint =
    "install Debian's dataset-fashion-mnist, or name the folder of the four files (muster train: "
    "--data-dir)";

std::shared_ptr<const Dataset> open_fashion_mnist(const DatasetRequest& request) {
  resolve_params<FashionMnistOptions>({}, request.params, "dataset fashion-mnist");
  const auto folder =
      request.data_dir.empty() ? "/usr/share/datasets/fashion-mnist" : request.data_dir;
  // Mean and deviation over all pixels of the training split.
  return read_mnist_files(folder,
                          request.split,
                          {.name = "fashion-mnist",
                           .sample_shape = {1, 28, 28},
                           .classes = 10,
                           .class_names = {"T-shirt/top",
                                           "Trouser",
                                           "Pullover",
                                           "Dress",
                                           "Coat",
                                           "Sandal",
                                           "Shirt",
                                           "Sneaker",
                                           "Bag",
                                           "Ankle boot"},
                           .mean = {0.2860},
                           .standard_deviation = {0.3530}},
                          kFashionMnistHint);
}

}  // namespace

extern constinit const DatasetEntry fashion_mnist_entry{
    .name = "fashion-mnist",
    .help = "70,000 grey 28x28 images of 10 kinds of clothing",
    .open = &open_fashion_mnist,
};

}  // namespace muster::data
