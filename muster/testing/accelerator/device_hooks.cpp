#include "muster/testing/accelerator/device_hooks.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <c10/core/DeviceGuard.h>

#include "muster/base/error.h"
#include "muster/testing/accelerator/generator.h"
#include "muster/testing/accelerator/machine.h"
#include "muster/testing/accelerator/pinned_memory.h"

namespace muster::testing {

bool FakeHooks::isBuilt() const { return true; }

bool FakeHooks::isAvailable() const { return Machine::get().device_count() > 0; }

void FakeHooks::init() const {}

bool FakeHooks::hasPrimaryContext(c10::DeviceIndex device) const {
  return device >= 0 && device < Machine::get().device_count();
}

c10::DeviceIndex FakeHooks::deviceCount() const {
  return static_cast<c10::DeviceIndex>(Machine::get().device_count());
}

void FakeHooks::setCurrentDevice(c10::DeviceIndex device) const {
  Machine::get().check(device);
  set_current_device(device);
}

c10::DeviceIndex FakeHooks::getCurrentDevice() const { return current_device(); }

c10::DeviceIndex FakeHooks::exchangeDevice(c10::DeviceIndex device) const {
  const c10::DeviceIndex before = current_device();
  setCurrentDevice(device);
  return before;
}

c10::DeviceIndex FakeHooks::maybeExchangeDevice(c10::DeviceIndex device) const {
  return hasPrimaryContext(device) ? exchangeDevice(device) : current_device();
}

bool FakeHooks::isPinnedPtr(const void* pointer) const { return is_pinned(pointer); }

c10::Allocator* FakeHooks::getPinnedMemoryAllocator() const { return pinned_allocator(); }

c10::Device FakeHooks::getDeviceFromPtr(void* pointer) const {
  const DeviceAddress address = find_shown(pointer);
  if (address.device >= 0) return {kFake, address.device};
  throw usage_error({.refused = "device of a pointer",
                     .rule = "it points into memory of a fake device",
                     .hint = "data_ptr() of a tensor on one"});
}

const at::Generator& FakeHooks::getDefaultGenerator(c10::DeviceIndex device) const {
  return Machine::get().device(device < 0 ? current_device() : device).generator;
}

at::Generator FakeHooks::getNewGenerator(c10::DeviceIndex device) const {
  const c10::DeviceIndex index = device < 0 ? current_device() : device;
  Machine::get().check(index);
  return make_fake_generator(index);
}

void FakeHooks::resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const {
  const c10::DeviceGuard guard(storage.device());
  c10::DataPtr fresh = storage.allocator()->allocate(bytes);
  const size_t kept = std::min(bytes, storage.nbytes());
  if (kept > 0) std::memcpy(kernel_address(fresh.get()), kernel_address(storage.data()), kept);
  storage.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(fresh));
  storage.unsafeGetStorageImpl()->set_nbytes(bytes);
}

}  // namespace muster::testing
