// The C++ sides of benchmarks/peers/optimizer: Muster's optimizers and LibTorch's torch::optim.
//
// Answers commands on stdin, one line each, with one line of JSON on stdout; run.py gives them.
//     setup VARIANT OPTIMIZER LIST   parameters and gradients anew; VARIANT is muster or libtorch
//     step VARIANT COUNT             {"seconds": of COUNT steps together,
//                                    "cpu_seconds": of all threads}
//     sum VARIANT                    {"sum": of all parameters' magnitudes, in float64}
//     drop                           forgets all variants
//     threads                        {"threads": ATen's intra-op threads}
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/ops/rand.h>
#include <time.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/optim/optimizer.h"

namespace {

using muster::Json;
using Shapes = std::vector<std::vector<int64_t>>;

constexpr double kLr = 1e-3;

Shapes mlp() { return {{2048, 784}, {2048}, {2048, 2048}, {2048}, {10, 2048}, {10}}; }

/// torchvision's resnet18 in its order: 62 tensors, 11.7 million numbers.
Shapes resnet18() {
  Shapes out{{64, 3, 7, 7}, {64}, {64}};
  int64_t in = 64;
  for (const int64_t width : {64, 128, 256, 512}) {
    for (int block = 0; block < 2; ++block) {
      const int64_t from = block == 0 ? in : width;
      out.insert(out.end(), {{width, from, 3, 3}, {width}, {width}});
      out.insert(out.end(), {{width, width, 3, 3}, {width}, {width}});
      if (from != width) out.insert(out.end(), {{width, from, 1, 1}, {width}, {width}});
    }
    in = width;
  }
  out.insert(out.end(), {{1000, 512}, {1000}});
  return out;
}

Shapes tiny() {
  Shapes out(500, {16});
  out.resize(1000, {8, 8});
  return out;
}

Shapes shapes_of(const std::string& list) {
  if (list == "mlp") return mlp();
  if (list == "resnet18") return resnet18();
  if (list == "tiny") return tiny();
  throw muster::usage_error({.refused = "list " + list});
}

/// Either side's optimizer behind one call.
struct Side {
  std::vector<at::Tensor> parameters;
  std::function<void()> step;
};

std::function<void()> muster_step(const std::vector<at::Tensor>& parameters,
                                  const std::string& name) {
  muster::tensor::NamedTensorList named;
  for (size_t i = 0; i < parameters.size(); ++i)
    named.emplace_back(std::to_string(i), parameters[i]);
  const std::shared_ptr<muster::optim::Optimizer> optimizer =
      muster::optim::optimizers().at(name).make(std::move(named), kLr, {});
  return [optimizer] { optimizer->step(); };
}

template <class Optimizer, class Options>
std::function<void()> libtorch_step(const std::vector<at::Tensor>& parameters, Options options) {
  const auto optimizer = std::make_shared<Optimizer>(parameters, options);
  return [optimizer] { optimizer->step(); };
}

std::function<void()> libtorch_step(const std::vector<at::Tensor>& parameters,
                                    const std::string& name) {
  namespace optim = torch::optim;
  if (name == "sgd")
    return libtorch_step<optim::SGD>(parameters, optim::SGDOptions(kLr).momentum(0.9));
  if (name == "adam") return libtorch_step<optim::Adam>(parameters, optim::AdamOptions(kLr));
  if (name == "adamw") return libtorch_step<optim::AdamW>(parameters, optim::AdamWOptions(kLr));
  return libtorch_step<optim::RMSprop>(parameters, optim::RMSpropOptions(kLr));
}

Side make_side(const std::string& variant, const std::string& name, const std::string& list) {
  Side side;
  auto values = at::make_generator<at::CPUGeneratorImpl>(1);
  auto gradients = at::make_generator<at::CPUGeneratorImpl>(2);
  for (const auto& shape : shapes_of(list)) {
    at::Tensor parameter = at::rand(shape, values).requires_grad_();
    parameter.mutable_grad() = at::rand(shape, gradients);
    side.parameters.push_back(std::move(parameter));
  }
  side.step = variant == "muster" ? muster_step(side.parameters, name)
                                  : libtorch_step(side.parameters, name);
  return side;
}

double clock_s(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

Json time_steps(const Side& side, int64_t count) {
  const double start = clock_s(CLOCK_MONOTONIC), cpu_start = clock_s(CLOCK_PROCESS_CPUTIME_ID);
  for (int64_t i = 0; i < count; ++i) side.step();
  return {{"seconds", clock_s(CLOCK_MONOTONIC) - start},
          {"cpu_seconds", clock_s(CLOCK_PROCESS_CPUTIME_ID) - cpu_start}};
}

double sum_of(const Side& side) {
  double sum = 0;
  for (const at::Tensor& parameter : side.parameters)
    sum += parameter.detach().to(at::kDouble).abs().sum().item<double>();
  return sum;
}

}  // namespace

int main() {
  std::map<std::string, Side> sides;
  std::string command, variant, name, list;
  while (std::cin >> command) {
    Json answer = Json::object();
    if (command == "setup" && std::cin >> variant >> name >> list) {
      sides[variant] = make_side(variant, name, list);
    } else if (int64_t count = 0; command == "step" && std::cin >> variant >> count) {
      answer = time_steps(sides.at(variant), count);
    } else if (command == "sum" && std::cin >> variant) {
      answer["sum"] = sum_of(sides.at(variant));
    } else if (command == "drop") {
      sides.clear();
    } else if (command == "threads") {
      answer["threads"] = at::get_num_threads();
    } else {
      std::cerr << "optimizer_step: no such command: " << command << '\n';
      return 2;
    }
    std::cout << answer.dump() << std::endl;
  }
  return 0;
}
