// Ends as its word says, by errors that a device really gives: what `muster doctor` has to recognise.
//   failing_on_gpu WORD [explained]
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <ATen/DeviceAccelerator.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/diagnose/explain/explained_main.h"
#include "muster/tensor/device/cuda.h"
#include "muster/tensor/device/device_memory.h"

namespace {

const c10::Device kDevice(c10::kCUDA, 0);

void wait() { torch::ones({1}, kDevice).item<float>(); }

at::Tensor bytes_of(int64_t bytes) {
  return torch::empty({bytes}, at::TensorOptions(kDevice).dtype(at::kByte));
}

/// All of the device, in pieces that become smaller, but for less than a block of the allocator.
std::vector<at::Tensor> fill_device() {
  std::vector<at::Tensor> blocks;
  for (int64_t bytes = int64_t{16} << 30; bytes >= int64_t{2} << 20;) {
    try {
      blocks.push_back(bytes_of(bytes));
    } catch (const c10::OutOfMemoryError&) {
      bytes /= 2;
    }
  }
  return blocks;
}

const std::map<std::string, std::function<void()>> kWays{
    {"index",
     [] {
       const at::Tensor table = torch::ones({10, 4}, kDevice);
       torch::embedding(table, torch::tensor({3, 12}, at::TensorOptions(kDevice).dtype(at::kLong)));
       wait();
     }},
    {"label",
     [] {
       const at::Tensor scores = torch::randn({4, 5}, kDevice).log_softmax(1);
       torch::nll_loss(scores,
                       torch::tensor({0, 1, 7, 2}, at::TensorOptions(kDevice).dtype(at::kLong)));
       wait();
     }},
    {"out-of-memory",
     [] {
       const auto held = fill_device();
       bytes_of(int64_t{1} << 30);
     }},
    {"too-large", [] { bytes_of(int64_t{1} << 40); }},
    {"cudnn",
     [] {
       const at::Tensor x = torch::randn({64, 3, 224, 224}, kDevice);
       const at::Tensor w = torch::randn({64, 3, 7, 7}, kDevice);
       const auto held = fill_device();
       torch::conv2d(x, w);
       wait();
     }},
    {"cublas",
     [] {
       const at::Tensor a = torch::randn({512, 512}, kDevice);
       const auto held = fill_device();
       a.mm(a);
       wait();
     }},
    {"illegal-access",
     [] {
       auto* const nowhere = reinterpret_cast<void*>(0x10000);  // and nobody asks whether it is
       at::for_blob(nowhere, {1 << 20})
           .options(at::TensorOptions(kDevice))
           .target_device(kDevice)
           .make_tensor()
           .add(1);
       wait();
     }},
    {"host-pointer",
     [] {
       std::vector<float> host(16);
       torch::from_blob(host.data(), {16}, at::TensorOptions(kDevice));
     }},
    {"two-devices",
     [] {
       torch::ones({2, 2}, kDevice).mm(torch::ones({2, 2}));
     }},
    {"dtype",
     [] {
       torch::ones({2, 2}, kDevice).mm(torch::ones({2, 2}, kDevice).to(at::kHalf));
     }},
    {"no-such-device", [] { torch::ones({1}, c10::Device(c10::kCUDA, 9)); }},
};

int run(const std::string& word) {
  const std::string& why_not = muster::tensor::load_cuda();
  if (!why_not.empty())
    throw muster::environment_error({.refused = "failing_on_gpu", .rule = why_not});
  kWays.at(word)();
  return 0;
}

}  // namespace

int main(int count, char** words) {
  if (count < 2 || kWays.find(words[1]) == kWays.end()) {
    for (const auto& [word, way] : kWays) std::puts(word.c_str());
    return 2;
  }
  if (count > 2) return muster::diagnose::explained_main([&] { return run(words[1]); });
  return run(words[1]);
}
