#include "muster/testing/accelerator/addresses.h"

#include <cerrno>
#include <cstdint>

#include <sys/mman.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/testing/accelerator/fake_accelerator.h"

namespace muster::testing {
namespace {

constexpr size_t kAllRegions = kRegionBytes * FakeAccelerator::kMaxDevices;
constexpr size_t kPage = 4096;

struct Ranges {
  uintptr_t shown = 0;
  uintptr_t kernels = 0;
};
Ranges ranges;  // written once, before there is a device

uintptr_t reserve_range(int protection) {
  void* start =
      mmap(nullptr, kAllRegions, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start != MAP_FAILED) return reinterpret_cast<uintptr_t>(start);
  throw environment_error(
      {.refused = concat("fake devices: ", human_bytes(kAllRegions), " of addresses"),
       .rule = "the system keeps addresses for them, of which memory is taken when it is used",
       .value = errno_text(errno),
       .hint = "ulimit -v unlimited; where vm.overcommit_memory is 2, set it to 0"});
}

DeviceAddress find_in(uintptr_t range, const void* pointer) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(pointer) - range;  // wraps: too large
  if (range == 0 || at >= kAllRegions) return {};
  return {static_cast<c10::DeviceIndex>(at / kRegionBytes), at % kRegionBytes};
}

char* address_in(uintptr_t range, c10::DeviceIndex device, size_t offset) {
  return reinterpret_cast<char*>(range + static_cast<size_t>(device) * kRegionBytes + offset);
}

}  // namespace

void reserve_addresses() {
  if (ranges.shown != 0) return;
  const uintptr_t kernels = reserve_range(PROT_READ | PROT_WRITE);
  ranges = {.shown = reserve_range(PROT_NONE), .kernels = kernels};
}

char* shown_address(c10::DeviceIndex device, size_t offset) {
  return address_in(ranges.shown, device, offset);
}

char* kernel_address(c10::DeviceIndex device, size_t offset) {
  return address_in(ranges.kernels, device, offset);
}

char* kernel_address(const void* shown) {
  if (shown == nullptr) return nullptr;
  const DeviceAddress address = find_shown(shown);
  if (address.device < 0) throw internal_error({.refused = "memory of no fake device"});
  return kernel_address(address.device, address.offset);
}

DeviceAddress find_shown(const void* pointer) { return find_in(ranges.shown, pointer); }

DeviceAddress find_for_kernels(const void* pointer) { return find_in(ranges.kernels, pointer); }

void give_pages_back(c10::DeviceIndex device, size_t offset, size_t bytes) {
  const size_t from = (offset + kPage - 1) / kPage * kPage;
  const size_t to = (offset + bytes) / kPage * kPage;
  if (from < to) madvise(kernel_address(device, from), to - from, MADV_DONTNEED);
}

}  // namespace muster::testing
