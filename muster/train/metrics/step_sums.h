// The sums of a step's losses and metrics, where its tensors are.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "muster/train/metrics/meter.h"

namespace muster::train {

// Note [Sums on the device]
// A loss that the host reads is a wait for the device: it has nothing to do until the host has
// queued the next step. So what batches add up to stays on the device, in float64 and in the order
// in which a Meter adds, and the host reads it when the next step is queued (StepReport). What a
// batch weighs the host knows by itself. On the CPU every number is read at once.

/// A Meter whose values may be on a device. One thread, whose current stream has made the tensors.
class StepSums {
 public:
  StepSums(Meter::List metrics, c10::Device device);

  /// A batch's loss, a scalar mean over `weight` samples. As in a Meter, what has the weight 0 adds
  /// nothing.
  void add_loss(const at::Tensor& mean, double weight);
  /// A batch's value of the metric with that number in the list, a scalar.
  void add(size_t metric, const at::Tensor& value, double weight);

  c10::Device device() const { return device_; }
  const std::vector<Metric>& list() const { return host_.list(); }

  /// On the CPU all, elsewhere the weights without the values.
  const Meter& on_host() const { return host_; }

  /// The numbers; waits for the device.
  Meter read() const;

  // Of an accelerator:
  at::Tensor loss() const;    ///< the sum // [] float64
  at::Tensor values() const;  ///< the loss, and each metric; 0 where there is none // [1 + metrics]
  /// As Meter::sums() and maxima(), there. The metrics whose extremes count are 0 in the first, or
  /// NaN.
  at::Tensor sums() const;
  at::Tensor maxima() const;
  /// The whole Meter: these weights, with values() that are on the host now.
  static Meter joined(const Meter& weights, const at::Tensor& values);

 private:
  at::Tensor zero() const;

  c10::Device device_;
  Meter host_;
  at::Tensor loss_;                 // [] float64; undefined: nothing was added
  std::vector<at::Tensor> values_;  // by metric, the same
};

}  // namespace muster::train
