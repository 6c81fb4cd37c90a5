// One call of a CPU kernel on memory of a fake device.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

namespace muster::testing {

// Note [Kernels in place]
// For each tensor of the device a CPU tensor over the same bytes is made, with one CPU storage per
// storage, so that overlaps, views and in-place work are what they are. The CPU's kernel runs on
// them. Meanwhile CPU memory that this thread takes is the device's (InKernel), workspaces too, so
// that a cap holds for them, and results only change their label: no byte is copied. A result in an
// argument's storage is a view of it; a result that is an argument is that argument; an argument
// that the kernel resized, or gave another storage, hands that on to the device's tensor. OpenMP's
// threads take the CPU's memory: workspaces of theirs are not charged.

class KernelCall {
 public:
  explicit KernelCall(std::string op) : op_(std::move(op)) {}

  /// Refuses, with LibTorch's sentence, tensors of several devices. A CPU tensor may come along if
  /// it is a number, or where `cpu_allowed`.
  void check_device(const at::Tensor& tensor, bool cpu_allowed);
  /// The device by number that all is on; -1: no tensor has said so.
  c10::DeviceIndex device() const { return device_; }
  void set_device(c10::DeviceIndex device) { device_ = device; }
  /// Results are the CPU's, since a device argument says so.
  void leave_results_on_cpu() { results_on_cpu_ = true; }
  bool results_on_cpu() const { return results_on_cpu_; }

  /// Arguments for the kernel; what is not of the device stays as it is.
  at::Tensor on_cpu(const at::Tensor& tensor);
  c10::Storage on_cpu(const c10::Storage& storage);

  /// After the kernel, before results: arguments that it resized or gave other memory.
  void hand_on_changes();
  /// A result under the device's label.
  at::Tensor on_device(const at::Tensor& result);
  /// Results, and arguments of new size, in memory that the kernel took.
  const std::vector<at::Tensor>& made() const { return made_; }

 private:
  struct SameTensor {
    at::Tensor fake, cpu;
  };
  struct SameStorage {
    c10::Storage fake, cpu;
    const void* address = nullptr;  // of `cpu` before the kernel
    bool fresh = false;             // the kernel made it
  };
  c10::Storage on_device(const c10::Storage& storage);
  c10::DataPtr shown_memory(const c10::Storage& storage) const;
  bool is_fresh(const at::Tensor& fake) const;

  std::string op_;
  c10::DeviceIndex device_ = -1;
  bool results_on_cpu_ = false;
  std::vector<SameTensor> tensors_;
  std::vector<SameStorage> storages_;
  std::vector<at::Tensor> made_;
};

}  // namespace muster::testing
