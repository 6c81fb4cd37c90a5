// The C++ side of test_memory_snapshot.py.
//
//     memory_twin FILE STEPS     trains a small model for STEPS steps while an AllocationHistory
//                                lives, has one allocation refused, and writes its snapshot to FILE.
//                                A line of JSON says what our own counters say.
#include <cstdlib>
#include <iostream>
#include <list>
#include <map>
#include <string>

#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/memory/allocator/scope.h"
#include "muster/memory/snapshot/allocation_history.h"
#include "muster/memory/tracker/tracker.h"

namespace memory = muster::memory;

namespace {

struct Net : torch::nn::Module {
  torch::nn::Linear in = register_module("in", torch::nn::Linear(32, 128));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(128, 8));
  at::Tensor forward(const at::Tensor& x) { return out(torch::relu(in(x))); }
};

muster::Json run(const std::string& file, int steps) {
  const memory::AllocationHistory history(
      {.events = size_t{1} << 18, .level = memory::Level::kLayers});
  torch::manual_seed(1);
  Net net;
  torch::optim::SGD sgd(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  memory::Tracker tracker(net, &sgd, {.level = memory::Level::kLayers});
  std::list<at::Tensor> kept;
  for (int i = 0; i < steps; ++i) {
    sgd.zero_grad();
    at::Tensor loss;
    {
      const memory::Scope scope("forward");
      loss = net.forward(torch::randn({64, 32})).square().mean();
      kept.push_back(loss.detach());
    }
    loss.backward();
    sgd.step();
    tracker.end_iteration();
  }
  memory::set_cpu_capacity(memory::cpu_counters().current + 1000);
  bool refused = false;
  try {
    torch::empty({int64_t{1} << 20});
  } catch (const c10::OutOfMemoryError&) {
    refused = true;
  }
  memory::set_cpu_capacity(0);
  const memory::SnapshotFile written = history.write(file);
  muster::Json scopes = muster::Json::object();  // bytes by scope and operator
  for (const memory::LiveBlock& block : memory::live_blocks()) {
    auto& sum = scopes[block.scope + ";" + block.op];
    sum = (sum.is_null() ? int64_t{0} : sum.get<int64_t>()) + block.bytes;
  }
  return {{"blocks", written.blocks},
          {"bytes", written.bytes},
          {"current", memory::cpu_counters().current},
          {"allocations", memory::cpu_counters().allocations},
          {"events", written.events},
          {"forgotten", written.forgotten},
          {"refused", refused},
          {"by_scope", scopes}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: memory_twin FILE STEPS\n";
    return 2;
  }
  try {
    std::cout << muster::json_text(run(argv[1], std::atoi(argv[2]))) << '\n';
  } catch (const muster::Error& error) {
    std::cerr << error.what() << '\n';
    return error.exit_code();
  }
}
