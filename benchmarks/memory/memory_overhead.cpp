// What the levels of muster::memory cost a training step. See run.py.
//     memory_overhead                       interleaved rounds of all levels, medians, as a table
//     memory_overhead NET LEVEL STEPS       one level alone, for counting instructions around it
// NET: mlp (tiny operators) or cnn. LEVEL: bare (no allocator of ours), off, L0, L1, L1-each
// (looks_every = 1), L2, leaks.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "muster/memory/leak/leak_finder.h"

namespace {

using namespace muster;  // NOLINT: a program

struct Work {
  torch::nn::Sequential net;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  at::Tensor batch;

  void step() {
    optimizer->zero_grad();
    net->forward(batch).square().mean().backward();
    optimizer->step();
  }
};

Work make_work(const std::string& net) {
  torch::manual_seed(1);
  Work work;
  if (net == "mlp") {
    for (int i = 0; i < 8; ++i) {
      work.net->push_back(torch::nn::Linear(32, 32));
      work.net->push_back(torch::nn::ReLU());
    }
    work.batch = torch::randn({8, 32});
  } else {
    work.net->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 16, 3).padding(1)));
    work.net->push_back(torch::nn::ReLU());
    work.net->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 32, 3).padding(1)));
    work.net->push_back(torch::nn::ReLU());
    work.net->push_back(torch::nn::MaxPool2d(2));
    work.net->push_back(torch::nn::Flatten());
    work.net->push_back(torch::nn::Linear(32 * 14 * 14, 10));
    work.batch = torch::randn({16, 3, 28, 28});
  }
  work.optimizer = std::make_unique<torch::optim::SGD>(work.net->parameters(), 1e-4);
  return work;
}

/// What is recorded while it lives.
struct Recorded {
  Recorded(const std::string& level, Work& work) {
    static const std::map<std::string, memory::Level> levels{{"off", memory::Level::kOff},
                                                             {"L0", memory::Level::kCounters},
                                                             {"L1", memory::Level::kTags},
                                                             {"L1-each", memory::Level::kTags},
                                                             {"L2", memory::Level::kLayers}};
    if (level == "bare") return;
    if (level == "off") {
      off.emplace(memory::Level::kOff);
      return;
    }
    const auto found = levels.find(level);
    tracker.emplace(*work.net,
                    work.optimizer.get(),
                    memory::TrackerOptions{
                        .level = found == levels.end() ? memory::Level::kLayers : found->second,
                        .looks_every = level == "L1-each" ? 1U : 32U});
    if (level == "leaks") finder.emplace(*tracker);
  }
  void end_step() {
    if (tracker) tracker->end_iteration();
  }
  std::optional<memory::Recording> off;
  std::optional<memory::Tracker> tracker;
  std::optional<memory::LeakFinder> finder;
};

/// What callgrind counts: its name is run.py's.
__attribute__((noinline)) void measured_step(Work& work, Recorded& recorded) {
  work.step();
  recorded.end_step();
}

double seconds_of(int steps, const std::function<void()>& step) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < steps; ++i) step();
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  return time.count() / steps;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void compare(const std::string& net, int rounds, int steps) {
  Work work = make_work(net);
  for (int i = 0; i < 20; ++i) work.step();
  std::map<std::string, std::vector<double>> times, ratios;
  for (int round = 0; round < rounds; ++round) {
    double off = 0;
    for (const std::string level : {"off", "L0", "L1", "L1-each", "L2", "leaks"}) {
      Recorded recorded(level, work);
      work.step();
      const double time = seconds_of(steps, [&] { measured_step(work, recorded); });
      if (level == "off") off = time;
      times[level].push_back(time);
      ratios[level].push_back(time / off);
    }
  }
  for (const std::string level : {"off", "L0", "L1", "L1-each", "L2", "leaks"})
    std::printf("%-4s %-6s %10.1f us per step, median ratio %.3f\n",
                net.c_str(),
                level.c_str(),
                median(times[level]) * 1e6,
                median(ratios[level]));
}

}  // namespace

int main(int argc, char** argv) {
  torch::set_num_threads(1);
  if (argc == 4) {
    Work work = make_work(argv[1]);
    Recorded recorded(argv[2], work);
    for (int i = 0; i < 5; ++i) {
      work.step();
      recorded.end_step();
    }
    for (int i = 0; i < std::atoi(argv[3]); ++i) measured_step(work, recorded);
    return 0;
  }
  compare("mlp", 41, 40);
  compare("cnn", 21, 5);
}
