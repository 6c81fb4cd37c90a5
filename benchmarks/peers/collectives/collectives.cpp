// The C++ sides of benchmarks/peers/collectives: one rank of a group of all-reducing processes.
//
//     collectives BACKEND      RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT as from a launcher
//
// Rank 0 answers commands on stdin, one line each, with one line of JSON on stdout; run.py gives
// them.
//     reduce BYTES COUNT   COUNT all-reduces of BYTES of float32, one after the other:
//                          {"seconds": of the slowest rank, "cpu_seconds": of all ranks' processes}
//     check BYTES          {"sum": of the elements after one all-reduce of ones times (rank + 1)}
// The end of stdin ends all ranks.
#include <array>
#include <iostream>
#include <string>

#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <time.h>

#include "muster/base/json.h"
#include "muster/distributed/process_group.h"

namespace {

using muster::Json;
using muster::distributed::ProcessGroup;

double clock_s(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Command, bytes, count; command 0 is the end.
using Order = std::array<int64_t, 3>;

Order read_order() {
  std::string command;
  int64_t bytes = 0, count = 1;
  if (!(std::cin >> command >> bytes)) return {};
  if (command == "reduce") std::cin >> count;
  return {command == "reduce" ? 1 : 2, bytes, count};
}

/// Rank 0's order, on all ranks.
Order next_order(const ProcessGroup& group) {
  at::Tensor words = at::zeros({3}, at::kLong);
  if (group.rank() == 0) {
    const Order order = read_order();
    std::copy(order.begin(), order.end(), words.data_ptr<int64_t>());
  }
  group.broadcast(words);
  Order order;
  std::copy_n(words.data_ptr<int64_t>(), 3, order.begin());
  return order;
}

Json time_reductions(const ProcessGroup& group, int64_t bytes, int64_t count) {
  const at::Tensor tensor = at::zeros({bytes / 4});
  group.barrier();
  const double start = clock_s(CLOCK_MONOTONIC), cpu_start = clock_s(CLOCK_PROCESS_CPUTIME_ID);
  for (int64_t i = 0; i < count; ++i) group.all_reduce(tensor);
  at::Tensor wall = at::full({1}, clock_s(CLOCK_MONOTONIC) - start, at::kDouble);
  at::Tensor cpu = at::full({1}, clock_s(CLOCK_PROCESS_CPUTIME_ID) - cpu_start, at::kDouble);
  group.all_reduce(wall, c10d::ReduceOp::MAX);
  group.all_reduce(cpu);
  return {{"seconds", wall.item<double>()}, {"cpu_seconds", cpu.item<double>()}};
}

Json check(const ProcessGroup& group, int64_t bytes) {
  const at::Tensor tensor = at::full({bytes / 4}, group.rank() + 1.0F);
  group.all_reduce(tensor);
  return {{"sum", tensor.to(at::kDouble).sum().item<double>()}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const ProcessGroup group = muster::distributed::init_process_group({.backend = argv[1]});
  while (true) {
    const auto [command, bytes, count] = next_order(group);
    if (command == 0) break;
    const Json answer = command == 1 ? time_reductions(group, bytes, count) : check(group, bytes);
    if (group.rank() == 0) std::cout << answer.dump() << std::endl;
  }
  return 0;
}
