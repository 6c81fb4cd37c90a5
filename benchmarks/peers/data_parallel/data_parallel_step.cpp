// The sides of benchmarks/peers/data_parallel: Muster's DataParallel, the parts of LibTorch's
// torch::nn::parallel::data_parallel, and one device. All on the CPU.
//
// LibTorch's data_parallel itself needs CUDA: its Scatter and Gather are not in a CPU LibTorch. Its
// other parts, replicate() and parallel_apply(), are templates in its header and work with CPU
// devices; the rows are dealt out and put together here by chunk and cat, as Scatter and Gather do.
// Compiled with -fopenmp: without it parallel_apply is serial.
//
// Answers commands on stdin, one line each, with one line of JSON on stdout; run.py gives them.
//     setup VARIANT MODEL REPLICAS   a model and batches anew; VARIANT is one, muster or libtorch
//     step VARIANT COUNT             {"seconds": of COUNT steps together,
//                                    "cpu_seconds": of all threads}
//     memory VARIANT                 {"bytes": made in a step and alive when backward starts, by
//                                    device}
//     sum VARIANT                    {"sum": of all parameters' magnitudes}
//     drop                           forgets all variants
//     threads                        {"threads": ATen's intra-op threads}
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <omp.h>
#include <time.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/functional.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>
#include <torch/nn/parallel/data_parallel.h>
#include <torch/optim/sgd.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/parallel/replicas/data_parallel.h"

#include "tests/support/counting_allocator.h"

namespace {

using muster::Json;
using muster::test::Tally;
using torch::Tensor;
using torch::nn::Sequential;

struct Model {
  std::function<Sequential()> make;
  Tensor x, y;
};

Sequential mlp(int64_t in, int64_t width, int64_t out) {
  torch::manual_seed(0);
  torch::nn::Linear first(in, width), second(width, width), last(width, out);
  return Sequential(first, torch::nn::ReLU(), second, torch::nn::ReLU(), last);
}

Sequential cnn() {
  torch::manual_seed(0);
  torch::nn::Conv2d first(torch::nn::Conv2dOptions(1, 16, 3).padding(1));
  torch::nn::Conv2d second(torch::nn::Conv2dOptions(16, 32, 3).padding(1));
  torch::nn::Linear last(32 * 7 * 7, 10);
  const auto flatten = [](const Tensor& x) { return x.flatten(1); };
  return Sequential(first,
                    torch::nn::ReLU(),
                    torch::nn::MaxPool2d(2),
                    second,
                    torch::nn::ReLU(),
                    torch::nn::MaxPool2d(2),
                    torch::nn::Functional(flatten),
                    last);
}

Model model_of(const std::string& name) {
  torch::manual_seed(1);
  if (name == "mlp")
    return {
        [] { return mlp(784, 2048, 10); }, torch::randn({64, 784}), torch::randint(0, 10, {64})};
  if (name == "head")
    return {[] { return mlp(128, 128, 32768); },
            torch::randn({128, 128}),
            torch::randint(0, 32768, {128})};
  if (name == "cnn") return {&cnn, torch::randn({128, 1, 28, 28}), torch::randint(0, 10, {128})};
  throw muster::usage_error({.refused = "model " + name});
}

Tensor loss_of(const Tensor& scores, const Tensor& y) {
  return torch::nn::functional::cross_entropy(scores, y);
}

torch::optim::SGD make_optimizer(Sequential& net) {
  return torch::optim::SGD(net->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
}

/// A side behind calls. In a step that is counted, each device's bytes are noted in `bytes` when
/// its forward and loss are done: what activations, clones and outputs come to.
struct Bytes {
  std::vector<Tally*> made;  // by device; none in a step that is not counted
  std::mutex mutex;
  std::map<int, int64_t> alive;  // by device
  bool counts() const { return !made.empty(); }
  /// What the calling thread makes from now on is that device's.
  void set_device(int device) { Tally::set_of_thread(*made.at(static_cast<size_t>(device))); }
  int device_of_thread() const {
    return static_cast<int>(std::ranges::find(made, &Tally::of_thread()) - made.begin());
  }
  void note(int device) {
    if (!counts()) return;
    const int64_t now = made.at(static_cast<size_t>(device))->live();
    const std::lock_guard lock(mutex);
    alive[device] = now;
  }
};
struct Side {
  Sequential net{nullptr};
  std::function<void(Bytes& bytes)> step;
};

std::shared_ptr<torch::optim::SGD> shared_optimizer(const Sequential& net) {
  return std::make_shared<torch::optim::SGD>(net->parameters(),
                                             torch::optim::SGDOptions(0.01).momentum(0.9));
}

Side one_device(const Model& model) {
  const Sequential net = model.make();
  const auto optimizer = shared_optimizer(net);
  return {net, [=](Bytes& bytes) {
            optimizer->zero_grad();
            const Tensor loss = loss_of(Sequential(net)->forward(model.x), model.y);
            bytes.note(0);
            loss.backward();
            optimizer->step();
          }};
}

Side muster_side(const Model& model, int replicas) {
  using Parallel = muster::parallel::DataParallel<Sequential>;
  const auto dp =
      std::make_shared<Parallel>(model.make, std::vector<at::Device>(replicas, at::kCPU));
  using Optimizer = decltype(dp->optimizer(&make_optimizer));
  const auto optimizer = std::make_shared<Optimizer>(dp->optimizer(&make_optimizer));
  const auto loss = [](Sequential& net, const Tensor& x, const Tensor& y) {
    return loss_of(net->forward(x), y);
  };
  return {dp->module(), [=](Bytes& bytes) {
            optimizer->zero_grad();
            if (bytes.counts()) dp->each([&](Sequential&, int i) { bytes.set_device(i); });
            dp->backward(model.x, model.y, [&](Sequential& net, const Tensor& x, const Tensor& y) {
              const Tensor mean = loss(net, x, y);
              bytes.note(bytes.device_of_thread());
              return mean;
            });
            optimizer->step();
          }};
}

using Clones = std::vector<std::shared_ptr<torch::nn::SequentialImpl>>;

/// torch::nn::parallel::replicate, each clone counted for its device.
Clones replicate(const Sequential& net, const std::vector<at::Device>& devices, Bytes& bytes) {
  Clones clones;
  for (size_t i = 0; i < devices.size(); ++i) {
    bytes.set_device(static_cast<int>(i));
    clones.push_back(std::dynamic_pointer_cast<torch::nn::SequentialImpl>(net->clone(devices[i])));
  }
  bytes.set_device(0);
  torch::nn::replicate_grad_edges(net.ptr(), clones, devices);
  return clones;
}

/// parallel_for gives each of its threads one index: the thread's number is the device's.
void for_each_device(int replicas, const std::function<void(int)>& run) {
#pragma omp parallel num_threads(replicas)
  run(omp_get_thread_num());
}

Side libtorch_side(const Model& model, int replicas) {
  const Sequential net = model.make();
  const std::vector<at::Device> devices(replicas, at::kCPU);
  const auto optimizer = shared_optimizer(net);
  return {net, [=](Bytes& bytes) {
            optimizer->zero_grad();
            if (bytes.counts()) for_each_device(replicas, [&](int i) { bytes.set_device(i); });
            Clones clones = bytes.counts() ? replicate(net, devices, bytes)
                                           : torch::nn::parallel::replicate(net.ptr(), devices);
            const std::vector<Tensor> shards = model.x.chunk(replicas);
            const Tensor scores = torch::cat(
                torch::nn::parallel::parallel_apply(clones, shards, std::make_optional(devices)));
            const Tensor loss = loss_of(scores, model.y);
            for (int i = 0; i < replicas; ++i) bytes.note(i);
            loss.backward();
            optimizer->step();
          }};
}

Side make_side(const std::string& variant, const std::string& name, int replicas) {
  const Model model = model_of(name);
  if (variant == "one") return one_device(model);
  if (variant == "muster") return muster_side(model, replicas);
  if (variant == "libtorch") return libtorch_side(model, replicas);
  throw muster::usage_error({.refused = "variant " + variant});
}

double clock_s(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

Json time_steps(const Side& side, int64_t count) {
  const double start = clock_s(CLOCK_MONOTONIC), cpu_start = clock_s(CLOCK_PROCESS_CPUTIME_ID);
  Bytes none;
  for (int64_t i = 0; i < count; ++i) side.step(none);
  return {{"seconds", clock_s(CLOCK_MONOTONIC) - start},
          {"cpu_seconds", clock_s(CLOCK_PROCESS_CPUTIME_ID) - cpu_start}};
}

Json memory_of(const Side& side) {
  constexpr size_t kMostDevices = 64;
  Bytes bytes;
  for (size_t i = 0; i < kMostDevices; ++i)
    bytes.made.push_back(new Tally);  // tensors outlive this
  bytes.set_device(0);
  {
    const muster::test::MemoryCount counted;
    side.step(bytes);
  }
  Json list = Json::array();
  for (const auto& [device, alive] : bytes.alive) list.push_back(alive);
  return {{"bytes", list}};
}

double sum_of(const Side& side) {
  double sum = 0;
  for (const Tensor& parameter : side.net->parameters())
    sum += parameter.detach().to(at::kDouble).abs().sum().item<double>();
  return sum;
}

}  // namespace

int main() {
  std::map<std::string, Side> sides;
  std::string command, variant, name;
  while (std::cin >> command) {
    Json answer = Json::object();
    int64_t count = 0;
    if (command == "setup" && std::cin >> variant >> name >> count) {
      sides[variant] = make_side(variant, name, static_cast<int>(count));
    } else if (command == "step" && std::cin >> variant >> count) {
      answer = time_steps(sides.at(variant), count);
    } else if (command == "memory" && std::cin >> variant) {
      answer = memory_of(sides.at(variant));
    } else if (command == "sum" && std::cin >> variant) {
      answer["sum"] = sum_of(sides.at(variant));
    } else if (command == "drop") {
      sides.clear();
    } else if (command == "threads") {
      answer["threads"] = at::get_num_threads();
    } else {
      std::cerr << "data_parallel_step: no such command: " << command << '\n';
      return 2;
    }
    std::cout << answer.dump() << std::endl;
  }
  return 0;
}
