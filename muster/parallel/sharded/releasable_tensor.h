// A tensor whose memory goes and comes back, under views that stay.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

namespace muster::parallel {

// Note [Released weights]
// Parameters are views of a flat tensor, and so is what autograd saved of them. When the flat
// tensor is released its storage loses its memory, and when it is restored the same storage gets
// other memory: all views see it, and none of them, nor their version counters, has to be touched.
// So what a forward saved is valid in its backward again, as long as the numbers are the same.
// Whoever reads or writes a view meanwhile gets an error with a text instead of a crash.

class ReleasableTensor {
 public:
  ReleasableTensor() = default;
  /// A contiguous tensor with a storage of its own, there. `text`: what the error says of who looks
  /// at it when it is released.
  ReleasableTensor(at::Tensor tensor, const std::string& text);

  /// Whether there is an error at all: not with LibTorch 2.11, where whoever looks at it crashes.
  static bool has_error();

  bool is_there() const { return is_there_; }
  void release();
  /// Memory for it, without values, which nobody sees until put_back().
  at::Tensor fresh() const;
  /// It has the memory, and the values, of what fresh() gave.
  void put_back(at::Tensor filled);

  const at::Tensor& tensor() const { return tensor_; }

 private:
  at::Tensor tensor_;
  at::Tensor counterpart_;  ///< its storage has what tensor_'s has not: an error, or nothing
  bool is_there_ = true;
};

}  // namespace muster::parallel
