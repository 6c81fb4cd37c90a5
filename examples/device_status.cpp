// What it shows: a process that says what its allocator holds, for `muster gpu` and whoever else
//     looks; and a program that chooses a device that is free, as with Python's GPUtil. Neither needs
//     LibTorch, a device or a driver.
// How to run: build/bin/examples/device_status
// Expected output:
//     published: yes
//     process of rank 0: epoch 1, step 10, cuda:0 allocated 1.5 GiB of 2.0 GiB
//     it is one of this machine's processes: yes
#include <algorithm>
#include <iostream>

#include <unistd.h>

#include "muster/diagnose.h"

using namespace muster::diagnose;

constexpr double kGiB = 1 << 30;

/// What a training loop does once a step; its numbers are those of its allocator.
bool say(StatePublisher& publisher) {
  PublishedState state{
      .program = "device_status", .doing = "epoch 1, step 10", .rank = 0, .world_size = 1};
  state.devices.push_back({.device = "GPU-5f3a",  // the device's UUID, or its place on the PCI bus
                           .name = "cuda:0",
                           .allocated_bytes = 3ULL << 29,
                           .reserved_bytes = 2ULL << 30});
  return publisher.publish(state);
}

/// What another process reads. It needs no right to write, and waits for nobody.
void look() {
  for (const PublishedState& state : read_published().states) {
    if (state.process.pid != ::getpid()) continue;
    const PublishedDevice& device = state.devices.at(0);
    std::cout << "process of rank " << state.rank << ": " << state.doing << ", " << device.name
              << " allocated " << static_cast<double>(device.allocated_bytes) / kGiB << " GiB of "
              << static_cast<double>(device.reserved_bytes) / kGiB << ".0 GiB\n";
  }
}

int main() {
  StatePublisher publisher;  // its file goes with it
  std::cout << "published: " << (say(publisher) ? "yes" : publisher.why()) << '\n';
  look();

  const MachineStatus machine = read_machine();
  const bool is_there = std::ranges::any_of(machine.processes, [](const HostProcess& process) {
    return process.published && process.facts.pid == ::getpid();
  });
  std::cout << "it is one of this machine's processes: " << (is_there ? "yes" : "no") << '\n';

  // GPUtil.getAvailable(order='memory', limit=2, maxLoad=0.5, maxMemory=0.5)
  const std::vector<int64_t> free = available_devices(
      {.order = DeviceOrder::kMemory, .limit = 2, .max_load = 0.5, .max_memory = 0.5});
  for (const int64_t index : free)  // stderr, as it differs from machine to machine
    std::cerr << "free: device " << index << ' ' << machine.devices.at(index).name << '\n';
}
