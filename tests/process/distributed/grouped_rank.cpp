// One of four ranks, of which the last is killed: `muster_grouped_rank BACKEND group|recv FILE`.
// Even and odd ranks are a group of two each. Rank 1 waits for rank 3 in their group, or for its
// message, says what that ends with, and makes FILE. Ranks 0 and 2 work on in their group until
// that is there.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include "muster/distributed/process_group.h"

namespace {

using muster::distributed::ProcessGroup;

/// With messages both ways.
void work_on(const ProcessGroup& part, const std::string& file) {
  const int other = 1 - part.rank();
  for (bool is_over = false; !is_over;) {
    const at::Tensor over = at::full({1}, std::filesystem::exists(file) ? 1.0F : 0.0F);
    const at::Tensor word = at::ones({1});
    part.send(over, other, {.tag = 2});
    part.recv(word, other, {.tag = 2});
    part.all_reduce(over);
    is_over = over.item<float>() > 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::puts("done");
}

void play(const std::string& backend, const std::string& where, const std::string& file) {
  const ProcessGroup world = muster::distributed::init_process_group(
      {.backend = backend,
       .timeout = std::chrono::minutes(1),
       .monitor = {.heartbeat = std::chrono::milliseconds(100)}});
  const auto part = world.split(world.rank() % 2, 0, {.name = "stages"});
  part->barrier();
  world.barrier();
  if (world.rank() == 3) std::raise(SIGKILL);
  if (world.rank() != 1) return work_on(*part, file);
  if (where == "group")
    part->all_reduce(at::ones({1000}));
  else
    world.recv(at::ones({1000}), 3, {.tag = 5});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 99;
  std::signal(SIGTERM,
              SIG_IGN);  // the launcher's, when rank 3 is dead: first it is said who it was
  try {
    play(argv[1], argv[2], argv[3]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    std::ofstream made(argv[3]);
  }
  return 1;
}
