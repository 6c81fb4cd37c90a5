// What it shows: one_device.cpp on many ranks. Each takes its share of every batch, and gradients
//     are averaged during backward, so the numbers are those of one device.
//     docs/first-training-program.md explains each changed line.
// How to run:
//     build/bin/muster run --nproc-per-node 2 --no-prefix -- build/bin/examples/two_ranks [FOLDER]
// Expected output (the last digits depend on the machine):
//     epoch 1: test loss 0.445128, accuracy 0.8398
//     epoch 2: test loss 0.390163, accuracy 0.8606
#include <iostream>
#include <stdexcept>
#include <string>

#include <torch/torch.h>
#include <zlib.h>

#include "muster/parallel.h"

constexpr int64_t kBatch = 100;
constexpr int64_t kEpochs = 2;

// Two linear layers.
struct NetImpl : torch::nn::Module {
  // images // [N, 784] float32  ->  scores // [N, 10] float32
  torch::Tensor forward(const torch::Tensor& images) {
    return fc2->forward(torch::relu(fc1->forward(images)));
  }

  torch::nn::Linear fc1 = register_module("fc1", torch::nn::Linear(784, 128));
  torch::nn::Linear fc2 = register_module("fc2", torch::nn::Linear(128, 10));
};
TORCH_MODULE(Net);

// The bytes of a gzip-compressed file behind its header.
torch::Tensor read_bytes(const std::string& path, int header, torch::IntArrayRef shape) {
  torch::Tensor bytes = torch::empty(shape, torch::kByte);
  const auto count = static_cast<int>(bytes.numel());
  gzFile file = gzopen(path.c_str(), "rb");
  const bool whole = file != nullptr && gzseek(file, header, SEEK_SET) == header &&
                     gzread(file, bytes.data_ptr(), static_cast<unsigned>(count)) == count;
  if (file != nullptr) gzclose(file);
  if (!whole) throw std::runtime_error("cannot read " + path);
  return bytes;
}

struct Split {
  torch::Tensor images;  // [N, 784] float32, about -0.8 … 2
  torch::Tensor labels;  // [N] int64
};

Split read_split(const std::string& folder, const std::string& name, int64_t count) {
  const std::string path = folder + "/" + name;
  const torch::Tensor pixels = read_bytes(path + "-images-idx3-ubyte.gz", 16, {count, 784});
  const torch::Tensor labels = read_bytes(path + "-labels-idx1-ubyte.gz", 8, {count});
  return {(pixels.to(torch::kFloat) / 255 - 0.2860) / 0.3530, labels.to(torch::kLong)};
}

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "/usr/share/datasets/fashion-mnist";
  const Split train = read_split(folder, "train", 60000);
  const Split test = read_split(folder, "t10k", 10000);

  torch::manual_seed(7);
  Net net;
  muster::distributed::ProcessGroup group = muster::distributed::init_process_group();
  muster::parallel::DistributedDataParallel ddp(net, group);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));

  for (int64_t epoch = 1; epoch <= kEpochs; ++epoch) {
    const torch::Tensor order = torch::randperm(train.labels.size(0), torch::kLong);
    for (int64_t at = 0; at < order.size(0); at += kBatch) {
      const torch::Tensor rows = order.slice(0, at + group.rank(), at + kBatch, group.world_size());
      optimizer.zero_grad();
      const torch::Tensor scores = ddp->forward(train.images.index_select(0, rows));
      torch::nn::functional::cross_entropy(scores, train.labels.index_select(0, rows)).backward();
      optimizer.step();
    }

    if (group.rank() != 0) continue;
    const torch::NoGradGuard no_grad;
    const torch::Tensor scores = net->forward(test.images);
    const double loss = torch::nn::functional::cross_entropy(scores, test.labels).item<double>();
    const auto right = scores.argmax(1).eq(test.labels).sum().item<double>();
    std::cout << "epoch " << epoch << ": test loss " << loss << ", accuracy " << right / 10000
              << std::endl;
  }
}
