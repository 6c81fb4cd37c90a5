// Where the memory of fake devices lies: twice, once for kernels and once for everybody else.
#pragma once

#include <cstddef>

#include <c10/core/Device.h>

namespace muster::testing {

/// Of addresses, per device; twice the largest capacity, since blocks leave holes.
inline constexpr size_t kRegionBytes = size_t(16) << 30;

/// Both ranges, once per process and for its life. Throws an environment error if the system gives
/// none. Before any other function here.
void reserve_addresses();

/// What tensors show: nobody can read there.
char* shown_address(c10::DeviceIndex device, size_t offset);
/// The same bytes for kernels.
char* kernel_address(c10::DeviceIndex device, size_t offset);
/// Of an address that is shown; null for null.
char* kernel_address(const void* shown);

struct DeviceAddress {
  c10::DeviceIndex device = -1;  ///< -1: no device's memory
  size_t offset = 0;
};
DeviceAddress find_shown(const void* pointer);
DeviceAddress find_for_kernels(const void* pointer);

/// What the bytes held is gone, and the host has its memory back. Whole pages only.
void give_pages_back(c10::DeviceIndex device, size_t offset, size_t bytes);

}  // namespace muster::testing
