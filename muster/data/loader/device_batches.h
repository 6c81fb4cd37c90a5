// A loader's batches on a device, the next one on its way while the present one is computed with.
#pragma once

#include <deque>
#include <exception>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/ScalarType.h>

#include "muster/data/loader/loader.h"
#include "muster/tensor/device/copy_stream.h"

namespace muster::tensor {
class DeviceSpans;
}

namespace muster::data {

/// Drops the batch's tensors, which are on that device or in memory that was copied to it: see
/// Note [Lost devices].
void let_go(Batch& batch, c10::Device device) noexcept;

/// A batch on its device, and as it was made.
struct ArrivedBatch {
  Batch batch;
  std::optional<Batch> made;  ///< in host memory; nothing where that is `batch` itself
  c10::Device device = c10::kCPU;

  ~ArrivedBatch() {
    let_go(batch, device);
    if (made) let_go(*made, device);
  }

  /// For what the host wants to know of it without waiting for the device.
  const Batch& on_host() const { return made ? *made : batch; }
};

/// Batches of one epoch after the other. With an accelerator the copies of batch n+1 are queued, on a
/// stream of their own, before next() returns batch n: before anything that computes with n can be.
/// See Note [Copies beside computation]. Let the loader make its batches for that device
/// (LoaderOptions::device), so that no copy waits for the host. The host runs ahead of the device by two
/// batches and then waits, or copies would fill the device. On the CPU batches are handed through.
///
///     DeviceBatches batches(device);
///     batches.begin(loader.epoch(e));
///     while (auto next = batches.next()) step(next->batch);
///
/// One thread, whose current stream of the device computes.
class DeviceBatches {
 public:
  /// With `channels_last`, tensors of numbers // [N, C, H, W] are in that memory format.
  explicit DeviceBatches(c10::Device device, bool channels_last = false);
  ~DeviceBatches();
  DeviceBatches(DeviceBatches&&) = default;

  /// From now on float32 tensors of a batch become `dtype` there: of a module whose weights are.
  /// Nothing: they stay.
  void cast_floats(std::optional<c10::ScalarType> dtype) { floats_ = dtype; }

  /// Ends the epoch before. The first batch is asked for by next().
  void begin(Epoch epoch);

  /// As Epoch::next, errors included: one of batch n+1 is thrown when that is asked for.
  std::optional<ArrivedBatch> next();

  /// A batch that no loader made, on the device at once, for the calling thread's current stream.
  Batch place(Batch batch) const;

  /// Where to resume after the batches handed out so far, whatever is on its way. After begin().
  LoaderState state() const { return state_; }
  /// Of the loader, which may be a batch ahead. After begin().
  LoaderStats stats() const { return epoch_->stats(); }
  int64_t batches() const { return epoch_->batches(); }

  c10::Device device() const { return device_; }

  /// For a trace, from now on: where copies are marked, and what is called when a batch has arrived,
  /// before the next one's copies are queued. Null and empty: nothing. `spans` is not owned.
  void trace(tensor::DeviceSpans* spans, std::function<void()> arrived) {
    spans_ = spans;
    arrived_ = std::move(arrived);
  }

 private:
  struct Ahead {
    std::optional<Batch> made;  // nothing at the epoch's end
    tensor::CopyStream::Copies copies;
    std::exception_ptr error;
    LoaderState state;  // behind it
  };

  Ahead fetch();
  void drop_next();
  void wait_for_device();
  void lay_out(Batch& batch) const;

  c10::Device device_;
  bool channels_last_;
  std::optional<c10::ScalarType> floats_;
  std::optional<tensor::CopyStream> copies_;  // for an accelerator
  std::optional<Epoch> epoch_;
  std::optional<Ahead> ahead_;
  std::deque<c10::Event> computed_;  // behind what was queued between calls of next()
  LoaderState state_;
  int64_t fetched_ = 0;  // in this epoch, for the trace
  tensor::DeviceSpans* spans_ = nullptr;
  std::function<void()> arrived_;
};

}  // namespace muster::data
