// Leaks on a device, here a fake one: programs 17b, 19 and 22 of the suite, and controls.
#include <deque>
#include <map>
#include <memory>
#include <utility>

#include "muster/memory/allocator/scope.h"
#include "muster/testing/accelerator/fake_accelerator.h"

#include "tests/memory/leak/leak_programs.h"
#include "tests/testing/accelerator/fake.h"

namespace muster::test {
namespace {

using memory::LeakKind;
using memory::Scope;

/// The device of one run.
struct FakeRun {
  explicit FakeRun(bool late_frees)
      : fake({.races = testing::Races::kIgnore, .late_frees = late_frees}) {}

  memory::Recording before_the_fake{memory::Level::kCounters};
  testing::FakeAccelerator fake;
};

/// The world on fake:0.
std::shared_ptr<FakeRun> move_to_fake(LeakWorld& world, bool late_frees = false) {
  auto run = std::make_shared<FakeRun>(late_frees);
  world.net->to(kFake0);
  world.optimizer = std::make_unique<torch::optim::SGD>(world.net->parameters(), 1e-3);
  world.batch = world.batch.to(kFake0);
  world.target = world.target.to(kFake0);
  return run;
}

at::Tensor on_fake(at::IntArrayRef sizes) { return torch::empty(sizes, at::TensorOptions(kFake0)); }

LeakStep cache_on_the_device(LeakWorld& world, bool leaks) {
  return [&world, leaks, run = move_to_fake(world), cache = std::deque<at::Tensor>()](int) mutable {
    world.train();
    const Scope scope("cache");
    cache.push_back(on_fake({256, 256}));
    if (!leaks && cache.size() > 4) cache.pop_front();
  };
}

/// Batches get longer, and each length has a staging buffer of its own.
LeakStep staging_buffer_for_each_size(LeakWorld& world, bool leaks) {
  constexpr int64_t kMost = 256, kWide = 2048;
  const auto pinned = at::TensorOptions(at::kFloat).pinned_memory(true);
  return
      [&world, leaks, pinned, run = move_to_fake(world), staging = std::map<int64_t, at::Tensor>()](
          int iteration) mutable {
        const int64_t rows = 16 + 5 * iteration, size = leaks ? rows : kMost;
        {
          const Scope scope("staging");
          if (!staging.contains(size)) staging[size] = torch::zeros({size, kWide}, pinned);
          world.batch = staging[size].narrow(0, 0, rows).narrow(1, 0, 64).to(kFake0, true);
        }
        world.train();
      };
}

LeakStep batches_a_side_stream_uses(LeakWorld& world, bool leaks) {
  const auto run = move_to_fake(world, /*late_frees=*/true);
  const c10::Stream side = fake_guard().getNewStream(kFake0);
  return [&world, leaks, run, side](int) {
    world.train();
    const Scope scope("prefetch");
    on_fake({256, 256}).record_stream(side);
    if (!leaks) fake_guard().synchronizeDevice(0);
  };
}

LeakStep device_batches_of_changing_length(LeakWorld& world) {
  return [&world, run = move_to_fake(world)](int iteration) {
    world.batch = torch::randn({16 + (iteration * 37) % 241, 64}).to(kFake0);
    world.train();
  };
}

LeakStep device_batches_that_grow(LeakWorld& world) {
  return [&world, run = move_to_fake(world)](int iteration) {
    world.batch = torch::randn({5 + 5 * iteration, 4096}).to(kFake0).narrow(1, 0, 64);
    world.train();
  };
}

LeakStep device_buffer_that_fills(LeakWorld& world) {
  return [&world, run = move_to_fake(world), buffer = std::deque<at::Tensor>()](int) mutable {
    world.train();
    for (int i = 0; i < 2; ++i) buffer.push_back(on_fake({256, 64}));
    while (buffer.size() > 24) buffer.pop_front();  // full in iteration 12
  };
}

LeakStep device_buffer_that_says_its_end(LeakWorld& world) {
  constexpr int64_t kBytes = int64_t{256} * 64 * 4;
  return [&world, run = move_to_fake(world), buffer = std::deque<at::Tensor>()](int) mutable {
    world.train();
    const Scope scope("device_replay", memory::GrowsTo{1000 * kBytes});
    buffer.push_back(on_fake({256, 64}));  // full in iteration 1000
  };
}

/// 8 MiB stay with the allocator, and the next iteration takes them again.
LeakStep device_cache_that_is_reused(LeakWorld& world) {
  return [&world, run = move_to_fake(world)](int) {
    world.train();
    std::deque<at::Tensor> workspaces;
    for (int i = 0; i < 8; ++i) workspaces.push_back(on_fake({512, 512}));
  };
}

/// What a captured graph has: memory that stays its own from then on, into which each replay writes.
struct CapturedGraph {
  at::Tensor input;
  std::deque<at::Tensor> pool;
};

/// A graph for each of four lengths, captured when it first comes: in iterations 1, 4, 8 and 12.
LeakStep device_pools_of_graphs(LeakWorld& world) {
  return [&world, run = move_to_fake(world), graphs = std::map<int64_t, CapturedGraph>()](
             int iteration) mutable {
    world.train();
    const int64_t rows = 64 * (1 + (iteration < 16 ? iteration / 4 : iteration % 4));
    CapturedGraph& graph = graphs[rows];
    if (graph.pool.empty()) {
      const Scope scope("capture");
      graph.input = on_fake({rows, 64});
      for (int i = 0; i < 8; ++i) graph.pool.push_back(on_fake({rows, 128}));
    }
    graph.input.copy_(world.batch.narrow(0, 0, rows));
    for (at::Tensor& one : graph.pool) one.fill_(iteration);
  };
}

}  // namespace

std::vector<LeakProgram> device_leak_programs() {
  return {
      {"17b cache of tensors on a device without a bound",
       LeakKind::kDevice,
       "cache",
       &cache_on_the_device},
      {"19 pinned buffers of growing sizes",
       LeakKind::kPinned,
       "staging",
       &staging_buffer_for_each_size},
      {"22 cross-stream frees piling up",
       LeakKind::kWaiting,
       "prefetch",
       &batches_a_side_stream_uses},
  };
}

std::vector<ControlProgram> device_control_programs() {
  return {
      {"device: batches of changing length", &device_batches_of_changing_length},
      {"device: batches that grow", &device_batches_that_grow},
      {"device: replay buffer that fills in 12", &device_buffer_that_fills},
      {"device: replay buffer that says its end", &device_buffer_that_says_its_end},
      {"device: cache that is reused (#17433)", &device_cache_that_is_reused},
      {"device: pools of captured graphs", &device_pools_of_graphs},
  };
}

}  // namespace muster::test
