// Leaks of memory that is no tensor's: oneDNN's cache of kernels, TorchScript's caches, mapped files. Programs 10b,
// 11b and 21 of the suite, and controls of the same causes.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <sys/mman.h>
#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>

#include "muster/memory/allocator/scope.h"

#include "tests/memory/leak/leak_programs.h"

namespace muster::test {
namespace {

using memory::LeakKind;
using memory::Scope;

/// Another one in each of 101 iterations.
int64_t new_size(int iteration) { return 24 + (iteration * 37) % 101; }

/// oneDNN compiles a kernel for each shape, and keeps 1024 of them.
LeakStep kernel_for_each_shape(LeakWorld& world, bool leaks) {
  torch::nn::Conv2d first(torch::nn::Conv2dOptions(16, 32, 3));
  torch::nn::Conv2d second(torch::nn::Conv2dOptions(32, 32, 3));
  static int64_t runs = 0;  // the kernels of the process's runs before are still there
  const int64_t width = 64 + runs++;
  return [&world, first, second, leaks, width](int iteration) mutable {
    world.train();
    const int64_t height = new_size(iteration);
    const Scope scope("images");
    const torch::NoGradGuard no_grad;
    const int64_t padded = leaks ? height : (height + 63) / 64 * 64;  // 64 or 128
    second->forward(torch::tanh(first->forward(torch::randn({2, 16, padded, width}))));
  };
}

constexpr size_t kShardBytes = size_t{512} << 10;

/// A shard of a dataset for each iteration, mapped from its file.
LeakStep shard_never_unmapped(LeakWorld& world, bool leaks) {
  const std::shared_ptr<std::FILE> file(std::tmpfile(), &std::fclose);
  const std::string zeros(kShardBytes, '\0');
  std::fwrite(zeros.data(), 1, zeros.size(), file.get());
  std::fflush(file.get());
  return [&world, file, leaks](int) {
    world.train();
    const Scope scope("shard");
    void* const shard =
        ::mmap(nullptr, kShardBytes, PROT_READ, MAP_PRIVATE, ::fileno(file.get()), 0);
    TORCH_CHECK(shard != MAP_FAILED);
    const auto unmap = [leaks](void* data) {
      if (!leaks) ::munmap(data, kShardBytes);
    };
    torch::from_blob(shard, {static_cast<int64_t>(kShardBytes / 4)}, unmap).sum().item<float>();
  };
}

/// Three layers of 32 x 32, as a script.
torch::jit::Module script() {
  torch::jit::Module module("scripted");
  for (const char* const name : {"a", "b", "c"})
    module.register_parameter(name, torch::randn({32, 32}), false);
  module.define(R"(
def forward(self, x):
    y = torch.tanh(torch.mm(x, self.a))
    y = torch.relu(y) * 2.0 + y
    z = torch.sigmoid(torch.mm(y, self.b)) * y + x
    z = torch.where(z > 0.5, z * 2.0, z - 1.0)
    return torch.softmax(torch.mm(z, self.c), 1) + torch.exp(-torch.abs(z))
)");
  return module;
}

/// Module::clone() makes a class, which the compilation unit keeps; deepcopy() shares the class.
LeakStep script_cloned_for_each_request(LeakWorld& world, bool leaks) {
  return [&world, module = script(), leaks](int) mutable {
    world.train();
    const Scope scope("request");
    const torch::NoGradGuard no_grad;
    torch::jit::Module own = leaks ? module.clone() : module.deepcopy();
    for (int i = 0; i < 2; ++i) own.forward({torch::randn({8, 32})});
  };
}

/// A compilation unit never forgets a function.
LeakStep function_for_each_request(LeakWorld& world, bool leaks) {
  const auto unit = std::make_shared<torch::jit::CompilationUnit>();
  return [&world, unit, leaks](int iteration) {
    world.train();
    const std::string name = "scale_" + std::to_string(leaks ? iteration : 0);
    const Scope scope("request");
    const torch::NoGradGuard no_grad;
    if (unit->find_function(name) == nullptr) {
      const std::string source = "def " + name + R"((x, w):
    y = torch.tanh(torch.mm(x, w))
    z = torch.relu(y) * 2.0 + y
    y = torch.where(z > 0.5, z * 2.0, z - 1.0)
    return torch.sigmoid(z) * y + torch.exp(-torch.abs(z))
)";
      unit->define(std::nullopt, source, torch::jit::nativeResolver(), nullptr);
    }
    for (int i = 0; i < 2; ++i)
      unit->run_method(name, torch::randn({8, 32}), torch::randn({32, 32}));
  };
}

/// While it lives, functions that are compiled run as they did before TorchScript profiled them.
class LegacyExecutor {
 public:
  LegacyExecutor()
      : profiling_(torch::jit::getProfilingMode().exchange(false)),
        executor_(torch::jit::getExecutorMode().exchange(false)) {}
  LegacyExecutor(const LegacyExecutor&) = delete;
  LegacyExecutor& operator=(const LegacyExecutor&) = delete;
  ~LegacyExecutor() {
    torch::jit::getProfilingMode() = profiling_;
    torch::jit::getExecutorMode() = executor_;
  }

 private:
  bool profiling_, executor_;
};

/// The legacy executor keeps a plan for each kind of arguments: here, for which of ten need gradients.
LeakStep plan_for_each_kind_of_arguments(LeakWorld& world, bool leaks) {
  constexpr int kArguments = 10;
  std::string names, sum;
  for (int i = 0; i < kArguments; ++i) {
    const std::string name = "x" + std::to_string(i);
    names += (i == 0 ? "" : ", ") + name;
    sum += (i == 0 ? "torch.tanh(" : " + torch.tanh(") + name + ").sum()";
  }
  const auto legacy = std::make_shared<LegacyExecutor>();
  const auto unit = torch::jit::compile("def total(" + names + "):\n    return " + sum + "\n");
  return [&world, legacy, unit, leaks](int iteration) {
    world.train();
    const Scope scope("request");
    torch::jit::Stack arguments;
    for (int i = 0; i < kArguments; ++i)
      arguments.emplace_back(torch::randn({4}).requires_grad_(leaks && (iteration >> i & 1) != 0));
    unit->get_function("total")(std::move(arguments));
  };
}

LeakStep script_of_new_shapes(LeakWorld& world, bool optimized) {
  return [&world, module = script(), optimized](int iteration) mutable {
    world.train();
    const torch::jit::GraphOptimizerEnabledGuard guard(optimized);
    module.forward({torch::randn({new_size(iteration), 32})});
  };
}

LeakStep profiled_script(LeakWorld& world) { return script_of_new_shapes(world, true); }

/// #46380, which was mended: each run added to the profile.
LeakStep script_without_optimization(LeakWorld& world) {
  return script_of_new_shapes(world, false);
}

LeakStep two_sizes_of_images(LeakWorld& world) { return kernel_for_each_shape(world, false); }

/// All of a replay buffer is taken at once; memory comes behind it as it is written.
LeakStep buffer_filled_row_by_row(LeakWorld& world) {
  return [&world, buffer = torch::empty({64, int64_t{128} << 10})](int iteration) mutable {
    world.train();
    buffer[iteration % 64].fill_(1);
  };
}

/// A dataset of one file is mapped once, and read on and on.
LeakStep file_mapped_once(LeakWorld& world) {
  constexpr size_t kShards = 64;
  const std::shared_ptr<std::FILE> file(std::tmpfile(), &std::fclose);
  const std::string zeros(kShardBytes, '\0');
  for (size_t i = 0; i < kShards; ++i) std::fwrite(zeros.data(), 1, zeros.size(), file.get());
  std::fflush(file.get());
  void* const all =
      ::mmap(nullptr, kShards * kShardBytes, PROT_READ, MAP_PRIVATE, ::fileno(file.get()), 0);
  TORCH_CHECK(all != MAP_FAILED);
  const at::Tensor samples = torch::from_blob(
      all, {static_cast<int64_t>(kShards), static_cast<int64_t>(kShardBytes / 4)}, [](void* data) {
        ::munmap(data, kShards * kShardBytes);
      });
  return [&world, samples](int iteration) {
    world.train();
    samples[iteration % static_cast<int>(kShards)].sum().item<float>();
  };
}

}  // namespace

std::vector<LeakProgram> outside_leak_programs() {
  return {
      {"10b ever-new input shapes, oneDNN's kernels",
       LeakKind::kKernels,
       "images",
       &kernel_for_each_shape},
      {"11b files mapped, never unmapped", LeakKind::kMapped, "shard", &shard_never_unmapped},
      {"21a a script's module cloned for each request",
       LeakKind::kHeap,
       "request",
       &script_cloned_for_each_request},
      {"21b a script's function defined for each request",
       LeakKind::kHeap,
       "request",
       &function_for_each_request},
      {"21c legacy executor, a plan for each kind of arguments",
       LeakKind::kHeap,
       "request",
       &plan_for_each_kind_of_arguments},
  };
}

std::vector<ControlProgram> outside_control_programs() {
  return {
      {"a script under ever-new shapes", &profiled_script},
      {"the same, its optimizer off (#46380)", &script_without_optimization},
      {"images of two sizes", &two_sizes_of_images},
      {"a buffer that is filled row by row", &buffer_filled_row_by_row},
      {"a mapped file that is read on and on", &file_mapped_once},
  };
}

}  // namespace muster::test
