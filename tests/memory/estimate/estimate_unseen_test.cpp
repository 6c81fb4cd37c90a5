// Nets that nobody chose: drawn from a seed after the rules of scratch had been found on others.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

#include <gtest/gtest.h>

#include "muster/memory/allocator/cpu_memory.h"
#include "muster/memory/estimate/cpu_scratch.h"

#include "tests/memory/estimate/zoo_step.h"

namespace muster::memory {
namespace {

namespace nn = torch::nn;

struct Drawn {
  std::mt19937 engine;
  int64_t from(std::vector<int64_t> choices) { return choices[engine() % choices.size()]; }
};

struct DrawnLstm : nn::Module {
  nn::LSTM cells{nullptr};
  nn::Linear out{nullptr};
  explicit DrawnLstm(Drawn& drawn, int64_t features) {
    const int64_t hidden = drawn.from({24, 40, 72, 100, 160, 200});
    cells = register_module(
        "cells",
        nn::LSTM(
            nn::LSTMOptions(features, hidden).batch_first(true).num_layers(drawn.from({1, 2}))));
    out = register_module("out", nn::Linear(hidden, 7));
  }
  at::Tensor forward(const at::Tensor& x) {
    return out(std::get<0>(cells->forward(x)).select(1, x.size(1) - 1));
  }
};

struct DrawnNet {
  nn::Sequential net;
  std::vector<int64_t> input;
};

DrawnNet drawn_cnn(Drawn& drawn) {
  DrawnNet made{.input = {drawn.from({2, 5, 12, 24}), drawn.from({1, 3, 4})}};
  const int64_t size = drawn.from({9, 16, 24, 37});
  made.input.insert(made.input.end(), {size, size});
  int64_t channels = made.input[1];
  for (int64_t layers = drawn.from({2, 3, 4}); layers > 0; --layers) {
    const int64_t width = drawn.from({10, 20, 36, 64, 90}), kernel = drawn.from({1, 3, 5});
    made.net->push_back(nn::Conv2d(nn::Conv2dOptions(channels, width, kernel)
                                       .padding(kernel / 2)
                                       .stride(drawn.from({1, 1, 2}))
                                       .bias(drawn.from({0, 1}) == 1)));
    if (drawn.from({0, 1}) == 1) made.net->push_back(nn::BatchNorm2d(width));
    made.net->push_back(nn::ReLU());
    channels = width;
  }
  made.net->push_back(nn::AdaptiveAvgPool2d(2));
  made.net->push_back(nn::Flatten());
  made.net->push_back(nn::Linear(4 * channels, 7));
  return made;
}

DrawnNet drawn_lstm(Drawn& drawn) {
  DrawnNet made{
      .input = {drawn.from({3, 10, 48}), drawn.from({5, 12, 33}), drawn.from({6, 30, 90})}};
  made.net->push_back(std::make_shared<DrawnLstm>(drawn, made.input[2]));
  return made;
}

struct DrawnStep {
  DrawnNet made;
  std::shared_ptr<torch::optim::SGD> optimizer;
  at::Tensor x, y;

  DrawnStep(uint32_t seed, c10::Device device) {
    Drawn drawn{.engine = std::mt19937(seed)};
    made = seed % 4 == 3 ? drawn_lstm(drawn) : drawn_cnn(drawn);
    if (device.is_meta()) move_to_meta(*made.net);
    optimizer = std::make_shared<torch::optim::SGD>(made.net->parameters(),
                                                    torch::optim::SGDOptions(0.1).momentum(0.9));
    x = at::zeros(made.input, device);
    y = at::zeros({made.input[0]}, at::device(device).dtype(at::kLong));
  }
  void run() {
    optimizer->zero_grad();
    at::cross_entropy_loss(made.net->forward(x), y).backward();
    optimizer->step();
  }
};

/// Measures one net after the other and compares; prints a line for each.
void compare_drawn_nets() {
  std::vector<double> errors;
  constexpr uint32_t kFirst = 100;  // those before were looked at to mend the rules
  for (uint32_t seed = kFirst; seed < kFirst + 40; ++seed) {
    const PeakEstimate estimate = estimate_peak([&] {
      const auto step = std::make_shared<DrawnStep>(seed, at::kMeta);
      return MetaStep{.module = step->made.net.ptr(), .run = [step] { step->run(); }};
    });
    const Recording recording(Level::kCounters);
    const int64_t before = cpu_counters().current;
    DrawnStep step(seed, at::kCPU);
    reset_cpu_peak();
    for (int i = 0; i < 2; ++i) step.run();
    const auto measured = static_cast<double>(cpu_counters().peak - before);
    errors.push_back((static_cast<double>(estimate.peak) - measured) / measured);
    EXPECT_LE(std::abs(errors.back()) * measured,
              estimate.error() * static_cast<double>(estimate.peak))
        << seed;
    std::printf("%s %u: %.2f MiB measured, %+.2f %%\n",
                seed % 4 == 3 ? "lstm" : "cnn",
                seed,
                measured / (1 << 20),
                100 * errors.back());
  }
  const auto low = std::ranges::count_if(errors, [](double error) { return error < -0.01; });
  std::ranges::sort(errors, {}, [](double error) { return std::abs(error); });
  std::printf(
      "nets that nobody chose: median %.2f %%, worst %+.1f %%, too low by more than 1 %% in %d\n",
      100 * std::abs(errors[errors.size() / 2]),
      100 * errors.back(),
      static_cast<int>(low));
  EXPECT_LE(std::abs(errors[errors.size() / 2]), 0.10);
}

/// In a process of its own: what LibTorch keeps of other tests' convolutions is not measured again (0.72
/// MiB of a net that alone takes 1.09).
TEST(EstimateSuite, HoldsForNetsThatNobodyChose) {
  if (!is_cpu_scratch_known())
    GTEST_SKIP() << "the scratch of convolutions was seen with AVX2 alone";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        compare_drawn_nets();
        std::exit(::testing::Test::HasFailure() ? 1 : 0);
      },
      ::testing::ExitedWithCode(0),
      "");
}

}  // namespace
}  // namespace muster::memory
