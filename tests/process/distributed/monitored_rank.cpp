// A rank of a job for the tests of failures: `muster_monitored_rank BACKEND TIMEOUT_MS [STEPS]`. Each
// step sums 1000 numbers and sends 4 from rank 0. What goes wrong comes from MUSTER_FAULTS. The
// ranks may take longer than the timeout to meet: loading LibTorch does, on a busy machine.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include <ATen/ops/ones.h>

#include "muster/distributed/process_group.h"

namespace {

using Clock = std::chrono::steady_clock;

/// `last_good`: when the last operation ended that did not fail.
void train(const std::string& backend,
           std::chrono::milliseconds timeout,
           int steps,
           Clock::time_point& last_good) {
  const auto group = muster::distributed::init_process_group(
      {.backend = backend,
       .timeout = std::chrono::minutes(1),
       .monitor = {.heartbeat = std::min(timeout / 10, std::chrono::milliseconds(300))}});
  group.c10d()->getBackend(at::kCPU)->setTimeout(timeout);
  last_good = Clock::now();
  std::printf("rank %d is pid %d\n", group.rank(), static_cast<int>(::getpid()));
  std::fflush(stdout);
  for (int step = 0; step < steps; ++step) {
    mark_step(group, step);
    group.all_reduce(at::ones({1000}));
    last_good = Clock::now();
    group.broadcast(at::ones({4}, at::kLong));
    last_good = Clock::now();
  }
  group.barrier();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 99;
  // The launcher ends the job as soon as it sees a rank die. These ranks use the time that it
  // grants them (--shutdown-timeout) to say what they saw.
  std::signal(SIGTERM, SIG_IGN);
  auto last_good = Clock::now();
  try {
    train(argv[1],
          std::chrono::milliseconds(std::atoi(argv[2])),
          argc > 3 ? std::atoi(argv[3]) : 10,
          last_good);
  } catch (const std::exception& error) {
    const std::chrono::duration<double> took = Clock::now() - last_good;
    std::fprintf(stderr, "error: %s\nfailed within %.3f s\n", error.what(), took.count());
    return 1;
  }
  std::puts("done");
  return 0;
}
