#include "muster/testing/accelerator/generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GeneratorImpl.h>

#include "muster/base/error.h"
#include "muster/testing/accelerator/machine.h"

namespace muster::testing {
namespace {

class FakeGenerator final : public c10::GeneratorImpl {
 public:
  FakeGenerator(c10::DeviceIndex device, at::Generator cpu)
      : c10::GeneratorImpl(c10::Device(kFake, device),
                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        cpu_(std::move(cpu)) {}

  const at::Generator& cpu() const { return cpu_; }

  void set_current_seed(uint64_t seed) override { cpu_.set_current_seed(seed); }
  uint64_t current_seed() const override { return cpu_.current_seed(); }
  uint64_t seed() override { return cpu_.unsafeGetGeneratorImpl()->seed(); }
  void set_offset(uint64_t) override { refuse_offset(); }
  uint64_t get_offset() const override { refuse_offset(); }
  void set_state(const c10::TensorImpl& state) override {
    cpu_.unsafeGetGeneratorImpl()->set_state(state);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return cpu_.unsafeGetGeneratorImpl()->get_state();
  }

 private:
  FakeGenerator* clone_impl() const override {
    return new FakeGenerator(device().index(), cpu_.clone());
  }
  [[noreturn]] static void refuse_offset() {
    throw usage_error({.refused = "offset of a fake device's generator",
                       .rule = "its numbers are the CPU's Mersenne Twister's, which has a state",
                       .hint = "get_state() and set_state()"});
  }

  at::Generator cpu_;
};

}  // namespace

at::Generator make_fake_generator(c10::DeviceIndex device) {
  return at::make_generator<FakeGenerator>(device, at::detail::createCPUGenerator());
}

std::optional<at::Generator> cpu_generator_of(const at::Generator& generator) {
  const auto* const fake = dynamic_cast<const FakeGenerator*>(generator.unsafeGetGeneratorImpl());
  if (fake == nullptr) return std::nullopt;
  return fake->cpu();
}

}  // namespace muster::testing
