// What it shows: a training program for one device, as you may have one. Plain LibTorch, nothing of Muster.
//     It reads Fashion-MNIST itself, has a module of its own, and trains it with torch::optim::SGD.
//     two_ranks.cpp is the same program on many ranks; docs/first-training-program.md explains the difference.
// How to run: build/bin/examples/one_device [FOLDER OF THE FOUR FASHION-MNIST FILES]
// Expected output (the last digits depend on the machine):
//     epoch 1: test loss 0.3968, accuracy 0.8567
//     epoch 2: test loss 0.3404, accuracy 0.8782
#include <torch/torch.h>
#include <zlib.h>

#include <cstdio>
#include <stdexcept>
#include <string>

constexpr int64_t kBatch = 100;
constexpr int64_t kEpochs = 2;

// Two convolutions, two linear layers.
struct NetImpl : torch::nn::Module {
  // images // [N, 1, 28, 28] float32  ->  scores // [N, 10] float32
  torch::Tensor forward(torch::Tensor images) {
    torch::Tensor x = torch::max_pool2d(torch::relu(conv1->forward(images)), 2);
    x = torch::relu(conv2->forward(x)).flatten(1);
    return fc2->forward(torch::relu(fc1->forward(x)));
  }

  torch::nn::Conv2d conv1 = register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 8, 5).stride(2).padding(2)));
  torch::nn::Conv2d conv2 = register_module("conv2", torch::nn::Conv2d(8, 16, 3));
  torch::nn::Linear fc1 = register_module("fc1", torch::nn::Linear(16 * 5 * 5, 64));
  torch::nn::Linear fc2 = register_module("fc2", torch::nn::Linear(64, 10));
};
TORCH_MODULE(Net);

// The bytes of a gzip-compressed file behind its header.
torch::Tensor read_bytes(const std::string& path, unsigned header_bytes, std::vector<int64_t> shape) {
  torch::Tensor bytes = torch::empty(shape, torch::kByte);
  std::string header(header_bytes, '\0');
  const auto wanted = static_cast<int>(bytes.numel());
  gzFile file = gzopen(path.c_str(), "rb");
  const bool whole = file != nullptr && gzread(file, header.data(), header_bytes) == static_cast<int>(header_bytes) &&
                     gzread(file, bytes.data_ptr(), static_cast<unsigned>(wanted)) == wanted;
  if (file != nullptr) gzclose(file);
  if (!whole) throw std::runtime_error("cannot read " + path);
  return bytes;
}

struct Split {
  torch::Tensor images;  // [N, 1, 28, 28] float32, about -0.8 … 2
  torch::Tensor labels;  // [N] int64
};

Split read_split(const std::string& folder, const std::string& name, int64_t count) {
  const torch::Tensor pixels = read_bytes(folder + "/" + name + "-images-idx3-ubyte.gz", 16, {count, 1, 28, 28});
  const torch::Tensor labels = read_bytes(folder + "/" + name + "-labels-idx1-ubyte.gz", 8, {count});
  return {(pixels.to(torch::kFloat) / 255 - 0.2860) / 0.3530, labels.to(torch::kLong)};
}

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "/usr/share/datasets/fashion-mnist";
  const Split train = read_split(folder, "train", 60000);
  const Split test = read_split(folder, "t10k", 10000);

  torch::manual_seed(7);
  Net net;
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));

  for (int64_t epoch = 1; epoch <= kEpochs; ++epoch) {
    const torch::Tensor order = torch::randperm(train.labels.size(0), torch::kLong);
    for (int64_t at = 0; at < order.size(0); at += kBatch) {
      const torch::Tensor rows = order.slice(0, at, at + kBatch);
      optimizer.zero_grad();
      const torch::Tensor scores = net->forward(train.images.index_select(0, rows));
      torch::nn::functional::cross_entropy(scores, train.labels.index_select(0, rows)).backward();
      optimizer.step();
    }

    const torch::NoGradGuard no_grad;
    const torch::Tensor scores = net->forward(test.images);
    const double loss = torch::nn::functional::cross_entropy(scores, test.labels).item<double>();
    const double accuracy = scores.argmax(1).eq(test.labels).to(torch::kDouble).mean().item<double>();
    std::printf("epoch %ld: test loss %.4f, accuracy %.4f\n", static_cast<long>(epoch), loss, accuracy);
    std::fflush(stdout);
  }
}
