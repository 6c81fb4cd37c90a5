// Small trainings on fake devices whose steps a Guard makes, for tests of what it promises.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <c10/core/AutogradState.h>
#include <torch/torch.h>

#include "muster/memory/guard/guard.h"
#include "muster/parallel/replicas/gradient_average.h"

#include "tests/testing/accelerator/fake.h"

namespace muster::test {

/// A module in float64, and rows for it.
struct GuardedJob {
  std::string name;
  std::function<std::shared_ptr<torch::nn::Module>()> make;
  std::function<at::Tensor(torch::nn::Module&, const at::Tensor& x)> forward;  // [rows, 3]
  std::vector<int64_t> row;                                                    // sizes of a row
};

struct JobMlp : torch::nn::Module {
  torch::nn::Linear in = register_module("in", torch::nn::Linear(5, 8));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(8, 3));
  at::Tensor forward(const at::Tensor& x) { return out(torch::tanh(in(x))); }
};

struct JobCnn : torch::nn::Module {
  torch::nn::Conv2d first =
      register_module("first", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3)));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(16, 3));
  at::Tensor forward(const at::Tensor& x) {
    return out(torch::max_pool2d(torch::relu(first(x)), 2).flatten(1));
  }
};

struct JobLstm : torch::nn::Module {
  torch::nn::LSTM cells =
      register_module("cells", torch::nn::LSTM(torch::nn::LSTMOptions(3, 6).batch_first(true)));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(6, 3));
  at::Tensor forward(const at::Tensor& x) {
    return out(std::get<0>(cells->forward(x)).select(1, x.size(1) - 1));
  }
};

template <class Net>
GuardedJob job_of(const std::string& name, std::vector<int64_t> row) {
  return {.name = name,
          .make = [] { return std::make_shared<Net>(); },
          .forward = [](torch::nn::Module& net,
                        const at::Tensor& x) { return dynamic_cast<Net&>(net).forward(x); },
          .row = std::move(row)};
}

inline GuardedJob mlp_job() { return job_of<JobMlp>("mlp", {5}); }
inline GuardedJob cnn_job() { return job_of<JobCnn>("cnn", {1, 6, 6}); }
inline GuardedJob lstm_job() { return job_of<JobLstm>("lstm", {2, 3}); }

/// One run of it on one rank.
struct GuardedRun {
  int64_t rows = 13, steps = 2;
  memory::GuardOptions options;
  std::function<void(int64_t step, memory::Guard& guard)> before;  // each guarded step
  std::function<void(int64_t step, memory::Guard& guard)> after;
};

/// The weights at its end, on the CPU; nothing on the device outlives it. Backward runs in this thread,
/// so that what it holds is gone when it returns.
inline std::vector<at::Tensor> weights_after(const GuardedJob& job,
                                             const GuardedRun& run,
                                             c10::Device device) {
  c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
  const int rank = run.options.group ? run.options.group->rank() : 0;
  std::shared_ptr<torch::nn::Module> net;
  std::vector<std::pair<at::Tensor, at::Tensor>> batches;
  {
    static std::mutex seeds;  // the CPU's generator is the process's
    const std::lock_guard lock(seeds);
    torch::manual_seed(3);
    net = job.make();
    torch::manual_seed(100 + rank);
    for (int64_t step = 0; step < run.steps; ++step) {
      std::vector<int64_t> sizes{run.rows};
      sizes.insert(sizes.end(), job.row.begin(), job.row.end());
      const at::Tensor x = torch::randn(sizes, torch::kDouble);
      batches.emplace_back(x, torch::randn({run.rows, 3}, torch::kDouble));
    }
  }
  net->to(device, torch::kDouble);
  std::optional<parallel::GradientAverage> average;
  if (run.options.group) average.emplace(*net, *run.options.group);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  memory::Guard guard(*net, run.options);
  for (int64_t step = 0; step < run.steps; ++step) {
    const at::Tensor x = batches[static_cast<size_t>(step)].first.to(device);
    const at::Tensor y = batches[static_cast<size_t>(step)].second.to(device);
    optimizer.zero_grad();
    if (run.before) run.before(step, guard);
    guard.step(run.rows, [&](const memory::MicroBatch& part) {
      const at::Tensor said = job.forward(*net, part.of(x));
      (torch::mse_loss(said, part.of(y)) * part.weight).backward();
    });
    if (run.after) run.after(step, guard);
    if (average) average->average();
    optimizer.step();
  }
  std::vector<at::Tensor> weights;
  for (const at::Tensor& parameter : net->parameters()) weights.push_back(parameter.detach().cpu());
  return weights;
}

inline bool same_weights(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!same_bits(a[i], b[i])) return false;
  return true;
}

/// The largest difference, relative to the largest number.
inline double apart(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double scale = b[i].abs().max().item<double>();
    most = std::max(most, (a[i] - b[i]).abs().max().item<double>() / scale);
  }
  return most;
}

}  // namespace muster::test
