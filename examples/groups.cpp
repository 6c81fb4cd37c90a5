// What it shows: ranks as a mesh of two axes. Along "pipeline" a rank computes with what the one
//     before it sends, without waiting for it; along "data" ranks with other samples add up what
//     they have. The ranks are threads here; between processes the code is the same.
// How to run: build/bin/examples/groups
// Expected output:
//     data 2 x pipeline 2; ranks 1 and 3 are the last stage
//     the squares of 0 to 63 add up to 85344
#include <cstdio>
#include <optional>

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "muster/distributed.h"

namespace md = muster::distributed;

constexpr int64_t kSamples = 64, kMicroBatches = 4;

// The first stage squares, the last one adds up.
at::Tensor run_replica(const md::DeviceMesh& mesh) {
  const md::ProcessGroup& pipeline = mesh.group("pipeline");
  const int last = pipeline.world_size() - 1;
  const int64_t each = kSamples / mesh.size("data") / kMicroBatches;
  at::Tensor total = at::zeros({1}, at::kLong);
  for (int64_t i = 0; i < kMicroBatches; ++i) {
    if (pipeline.rank() == 0) {
      const int64_t first = (mesh.coordinate("data") * kMicroBatches + i) * each;
      const at::Tensor x = at::arange(first, first + each, at::kLong);
      pipeline.send(x * x, last, {.tag = 0});
    }
    if (pipeline.rank() == last) {
      const at::Tensor squares = at::empty({each}, at::kLong);
      pipeline.recv(squares, 0, {.tag = 0, .timeout = std::chrono::seconds(30)});
      total += squares.sum();
    }
  }
  if (pipeline.rank() == last) mesh.group("data").all_reduce(total);
  return total;
}

// Some of the ranks, without a mesh.
void print_last_stage(const md::ProcessGroup& world, bool is_last) {
  const std::optional<md::ProcessGroup> stage = world.split(is_last ? 1 : md::kNoColor);
  if (!stage || stage->rank() != 0) return;
  std::printf("data 2 x pipeline 2; ranks %d and %d are the last stage\n",
              stage->world_rank(0),
              stage->world_rank(1));
}

int main() {
  md::ThreadWorld(4).run([](const md::ProcessGroup& world) {
    const md::DeviceMesh mesh(world, {{"data", -1}, {"pipeline", 2}});
    const bool is_last = mesh.coordinate("pipeline") == mesh.size("pipeline") - 1;
    print_last_stage(world, is_last);
    const at::Tensor total = run_replica(mesh);
    world.barrier();
    if (world.rank() == mesh.rank_at({0, 1}))
      std::printf("the squares of 0 to 63 add up to %ld\n", total.item<long>());
  });
}
