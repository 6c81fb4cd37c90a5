#include "muster/data/loader/device_batches.h"

#include <string>
#include <utility>

#include <c10/core/impl/VirtualGuardImpl.h>

#include "muster/base/text.h"
#include "muster/tensor/device/device_spans.h"
#include "muster/tensor/device/lost_device.h"

namespace muster::data {
namespace {

constexpr size_t kLead = 2;

std::vector<at::Tensor> tensors_of(const Batch& batch) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : batch.tensors) tensors.push_back(tensor);
  return tensors;
}

/// The same names and samples with other tensors.
Batch with_tensors(const Batch& batch, std::vector<at::Tensor> tensors) {
  Batch other{.indices = batch.indices};
  for (size_t i = 0; i < tensors.size(); ++i)
    other.tensors.emplace_back(batch.tensors[i].first, std::move(tensors[i]));
  return other;
}

}  // namespace

void let_go(Batch& batch, c10::Device device) noexcept {
  std::vector<at::Tensor> held;
  for (auto& [name, tensor] : batch.tensors) held.push_back(std::move(tensor));
  batch.tensors.clear();
  tensor::release_unless_lost(device, held);
}

DeviceBatches::DeviceBatches(c10::Device device, bool channels_last)
    : device_(device), channels_last_(channels_last) {
  if (device.is_cpu()) return;
  copies_.emplace(device);
  device_ = copies_->device();
}

DeviceBatches::~DeviceBatches() { drop_next(); }

void DeviceBatches::drop_next() {
  if (copies_ && ahead_) {
    if (ahead_->made) let_go(*ahead_->made, device_);
    tensor::release_unless_lost(device_, ahead_->copies.tensors);
  }
  ahead_.reset();
}

void DeviceBatches::begin(Epoch epoch) {
  drop_next();
  epoch_.emplace(std::move(epoch));
  state_ = epoch_->state();
  fetched_ = 0;
}

DeviceBatches::Ahead DeviceBatches::fetch() {
  Ahead ahead;
  try {
    ahead.made = epoch_->next();
  } catch (...) {
    ahead.error = std::current_exception();
  }
  ahead.state = epoch_->state();
  if (!ahead.made) return ahead;
  std::optional<size_t> span;
  if (spans_ != nullptr)
    span = spans_->begin("copies", concat("batch ", fetched_), copies_->stream());
  ahead.copies = copies_->begin(tensors_of(*ahead.made));
  if (span) spans_->end(*span);
  ++fetched_;
  return ahead;
}

/// Until the device is done with the batch before the last one.
void DeviceBatches::wait_for_device() {
  computed_.emplace_back(device_.type())
      .record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  if (computed_.size() <= kLead) return;
  computed_.front().synchronize();
  computed_.pop_front();
}

std::optional<ArrivedBatch> DeviceBatches::next() {
  if (!copies_) {
    std::optional<Batch> batch = epoch_->next();
    state_ = epoch_->state();
    if (!batch) return std::nullopt;
    std::optional<Batch> made = floats_ ? batch : std::nullopt;
    lay_out(*batch);
    std::optional<ArrivedBatch> here;
    here.emplace();
    here->batch = std::move(*batch);
    here->made = std::move(made);
    return here;
  }
  wait_for_device();
  if (!ahead_) ahead_ = fetch();
  Ahead now = *std::exchange(ahead_, std::nullopt);
  state_ = now.state;
  if (now.error) std::rethrow_exception(now.error);
  if (!now.made) return std::nullopt;
  Batch batch = with_tensors(*now.made, copies_->arrive(std::move(now.copies)));
  if (arrived_) arrived_();
  lay_out(batch);
  ahead_ = fetch();
  std::optional<ArrivedBatch> arrived;
  arrived.emplace();
  arrived->batch = std::move(batch);
  arrived->made = std::move(now.made);
  arrived->device = device_;
  return arrived;
}

Batch DeviceBatches::place(Batch batch) const {
  for (auto& [name, tensor] : batch.tensors) {
    if (tensor.defined() && !device_.is_cpu()) tensor = tensor.to(device_);
  }
  lay_out(batch);
  return batch;
}

void DeviceBatches::lay_out(Batch& batch) const {
  if (!channels_last_ && !floats_) return;
  for (auto& [name, tensor] : batch.tensors) {
    if (!tensor.defined()) continue;
    if (floats_ && tensor.scalar_type() == at::kFloat) tensor = tensor.to(*floats_);
    if (channels_last_ && tensor.dim() == 4 && tensor.is_floating_point())
      tensor = tensor.contiguous(at::MemoryFormat::ChannelsLast);
  }
}

}  // namespace muster::data
