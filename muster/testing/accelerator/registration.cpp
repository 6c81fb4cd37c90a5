#include "muster/testing/accelerator/registration.h"

#include <mutex>
#include <string>

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/CPUAllocator.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/library.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/testing/accelerator/addresses.h"
#include "muster/testing/accelerator/allocators.h"
#include "muster/testing/accelerator/autocast.h"
#include "muster/testing/accelerator/device_guard.h"
#include "muster/testing/accelerator/device_hooks.h"
#include "muster/testing/accelerator/kernel.h"
#include "muster/testing/accelerator/machine.h"
#include "muster/testing/accelerator/operators.h"
#include "muster/testing/accelerator/pinned_memory.h"

namespace muster::testing {
namespace {

using c10::DispatchKey;

/// Autograd has a thread per device number, and counts devices once: at the first backward().
struct OpenEngine : torch::autograd::Engine {
  static size_t threads(torch::autograd::Engine& engine) {
    return (engine.*(&OpenEngine::device_ready_queues_)).size();
  }
  static void start(torch::autograd::Engine& engine) {
    (engine.*(&OpenEngine::start_device_threads))();
  }
};

torch::CppFunction cpu_kernel() { return torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>(); }

/// Where the CPU has a kernel of its own and LibTorch also a composite one, the composite one would
/// be taken here instead of the fallback, with other numbers. Not where it carries the derivative.
/// Convolutions ask for the kind of device inside.
bool needs_cpu_kernel(const c10::OperatorHandle& op, const std::string& name) {
  if (op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd)) return false;
  if (name == "aten::convolution" || name == "aten::convolution_backward") return true;
  return op.hasKernelForDispatchKey(DispatchKey::CPU) &&
         (op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
          op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional));
}

void add_cpu_kernels(torch::Library& kernels) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (!name.name.starts_with("aten::")) continue;
    const std::string full =
        name.overload_name.empty() ? name.name : concat(name.name, ".", name.overload_name);
    const auto op = dispatcher.findSchema(name);
    if (op && !has_own_kernel(full) && needs_cpu_kernel(*op, full))
      kernels.impl(full.substr(std::string("aten::").size()).c_str(), cpu_kernel());
  }
}

torch::Library& new_library(const char* name, DispatchKey key) {
  return *new torch::Library(torch::Library::IMPL, name, key, __FILE__, __LINE__);  // for ever
}

void register_operators() {
  new_library("_", DispatchKey::PrivateUse1).fallback(cpu_kernel());
  torch::Library& kernels = new_library("aten", DispatchKey::PrivateUse1);
  add_own_operators(kernels, new_library("aten", DispatchKey::AutogradPrivateUse1));
  add_cpu_kernels(kernels);
  new_library("_", DispatchKey::AutocastPrivateUse1)
      .fallback(torch::CppFunction::makeFallthrough());
  add_autocast(new_library("aten", DispatchKey::AutocastPrivateUse1));
}

void check_that_there_is_room() {
  const bool taken =
      c10::is_privateuse1_backend_registered() || c10::impl::hasDeviceGuardImpl(kFake);
  const size_t threads = OpenEngine::threads(torch::autograd::Engine::get_base_engine());
  if (!taken && threads == 0) return;
  throw environment_error(
      {.refused = "fake devices",
       .rule =
           taken ? "they are LibTorch's only PrivateUse1 devices"
                 : "they are made before the first backward(), where there are other accelerators",
       .value = taken ? "another one is registered"
                      : concat("autograd already has ", threads, " device threads"),
       .hint = "a program of its own for tests with a FakeAccelerator"});
}

void register_all() {
  check_that_there_is_room();
  reserve_addresses();
  Machine::get();
  c10::SetCPUAllocator(make_kernel_allocator(c10::GetCPUAllocator()), 1);
  c10::SetAllocator(kFake, device_allocator());
  register_pinned_allocator();
  c10::register_privateuse1_backend("fake");
  c10::impl::registerDeviceGuard(kFake, new FakeDeviceGuard);
  at::RegisterPrivateUse1HooksInterface(new FakeHooks);
  register_operators();
  start_device_threads([] {
    // The one with the threads, also behind tensor::SavedTensorScope's.
    torch::autograd::Engine& engine = torch::autograd::Engine::get_base_engine();
    engine.initialize_device_threads_pool();
    if (OpenEngine::threads(engine) == 0) OpenEngine::start(engine);  // a backward() came before
  });
}

}  // namespace

void register_fake_devices() {
  static std::once_flag once;  // a failure leaves it open
  std::call_once(once, &register_all);
}

}  // namespace muster::testing
