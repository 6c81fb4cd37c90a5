// Hooks that run before and once a parameter's gradient is complete in a backward.
#pragma once

#include <functional>
#include <memory>

#include <ATen/core/Tensor.h>

namespace muster::parallel {

/// Sit on the nodes that accumulate into parameters, and go with this object; the parameters live
/// on.
class AccumulatorHooks {
 public:
  /// `incoming`: what backward added to the parameter's grad(), which autograd still holds; the
  /// grad() itself may be the same memory. May be undefined.
  using Hook = std::function<void(const at::Tensor& incoming)>;

  AccumulatorHooks();
  ~AccumulatorHooks();
  AccumulatorHooks(const AccumulatorHooks&) = delete;
  AccumulatorHooks& operator=(const AccumulatorHooks&) = delete;

  void add(const at::Tensor& parameter, Hook hook);
  /// Before anything is added to the parameter's grad().
  void add_before(const at::Tensor& parameter, std::function<void()> hook);

 private:
  struct Kept;  // hides the kind of pointer, which differs between LibTorch's versions
  std::unique_ptr<Kept> kept_;
};

}  // namespace muster::parallel
