// What DistributedDataParallel's checks cost in a step: the module's parameters and hooks, every
// step; the comparison of hashes between ranks, once in desync_check_steps.
//
//     ddp_checks [LAYERS [WIDTH [BATCH]]]        two thread ranks train an MLP of square layers
//
// Prints one JSON object: microseconds of a step without the comparison, per step of the checks
// alone, and their share in percent.
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <vector>

#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "muster/base/json.h"
#include "muster/parallel/ddp/ddp.h"
#include "muster/parallel/module/desync_check.h"
#include "muster/parallel/module/module_tree.h"
#include "muster/parallel/module/parameter_identity.h"
#include "muster/testing/run_ranks.h"

namespace {

using namespace muster;
namespace md = muster::distributed;
namespace mp = muster::parallel;

/// Microseconds of one of `count` calls.
template <class Call>
double microseconds(int count, Call&& call) {
  call();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) call();
  const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - start;
  return spent.count() / count;
}

}  // namespace

int main(int count, char** words) {
  const auto word = [&](int i, int64_t fallback) {
    return i < count ? std::strtoll(words[i], nullptr, 10) : fallback;
  };
  const int64_t layers = word(1, 3), width = word(2, 1024), batch = word(3, 64);
  std::vector<Json> results(2);
  muster::testing::run_ranks(2, [&](md::ProcessGroup group) {
    torch::nn::Sequential net;
    for (int64_t i = 0; i < layers; ++i) net->push_back(torch::nn::Linear(width, width));
    mp::DistributedDataParallel ddp(net, group, {.desync_check_steps = 0});
    torch::optim::SGD optimizer(net->parameters(), 1e-4);
    const at::Tensor x = torch::ones({batch, width});
    const double step = microseconds(20, [&] {
      optimizer.zero_grad();
      ddp->forward(x).square().mean().backward();
      optimizer.step();
    });
    mp::NamedTensors named;
    for (const auto& item : net->named_parameters()) named.emplace_back(item.key(), item.value());
    mp::ParameterIdentity identity(named);
    identity.record(named, {});
    const mp::ModuleTree tree(*net);
    const double same = microseconds(2000, [&] {
      if (!tree.holds(*net)) std::abort();
      identity.check();
    });
    mp::DesyncCheck watch(named, group, 1);
    const double hashes = microseconds(200, [&] {
      watch.start_step();
      watch.end_forward();
    });
    const double per_step = same + hashes / 100;
    results[group.rank()] = {{"step_us", step},
                             {"identity_us", same},
                             {"comparison_us", hashes},
                             {"checks_us_per_step", per_step},
                             {"percent", 100 * per_step / step}};
  });
  std::cout << results[0].dump() << '\n';
}
