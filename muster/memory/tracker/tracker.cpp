#include "muster/memory/tracker/tracker.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <string_view>

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/memory/allocator/names.h"
#include "muster/memory/allocator/operators.h"
#include "muster/memory/tracker/owned_tensors.h"
#include "muster/memory/tracker/recent.h"

namespace muster::memory {
namespace {

std::atomic<bool> tracker_lives{false};

size_t index_of(Owner owner) { return static_cast<size_t>(owner); }

/// "encoder.0" of "encoder.0.weight"; "(model)" of a parameter of the module itself.
std::string layer_of_parameter(std::string_view name) {
  const size_t end = name.rfind('.');
  return end == std::string_view::npos ? "(model)" : std::string(name.substr(0, end));
}

int64_t sum_of(const OwnerBytes& bytes) {
  int64_t sum = 0;
  for (const int64_t one : bytes) sum += one;
  return sum;
}

}  // namespace

Tracker::OnlyOne::OnlyOne(Level level) {
  if (level == Level::kOff) {
    throw usage_error({.refused = "a memory::Tracker of Level::kOff",
                       .rule = "it counts bytes at least",
                       .hint = "Level::kCounters"});
  }
  if (tracker_lives.exchange(true)) {
    throw usage_error({.refused = "a second memory::Tracker",
                       .rule = "the iteration's number is the process's, so there is one at a time",
                       .hint = "end the other one first, or give both loops to one"});
  }
}

Tracker::OnlyOne::~OnlyOne() { tracker_lives.store(false); }

Tracker::Tracker(torch::nn::Module& module,
                 torch::optim::Optimizer* optimizer,
                 TrackerOptions options)
    : module_(module),
      optimizer_(optimizer),
      options_(std::move(options)),
      only_one_(options_.level),
      recording_(options_.level) {
  first_mark_ = memory_iteration() + 1;
  set_memory_iteration(first_mark_);
  claim();
  map_layers();
  reset_cpu_peak();
  allocations_before_ = cpu_counters().allocations;
}

Tracker::~Tracker() {
  forget_iterations(c10::Device(c10::kCPU));
  if (device_) forget_iterations(*device_);
  if (!mapped_.empty()) set_layers({});
}

Tracker::Claims Tracker::claims() const {
  Claims all;
  const at::NoGradGuard no_grad;
  for (const at::Tensor& parameter : module_.parameters()) {
    all.emplace_back(parameter, Owner::kParameter);
    if (parameter.grad().defined()) all.emplace_back(parameter.grad(), Owner::kGradient);
  }
  for (const at::Tensor& buffer : module_.buffers()) all.emplace_back(buffer, Owner::kBuffer);
  std::vector<at::Tensor> state;
  if (options_.optimizer_state)
    state = options_.optimizer_state();
  else if (optimizer_ != nullptr)
    state = state_tensors(*optimizer_);
  for (at::Tensor& tensor : state) all.emplace_back(std::move(tensor), Owner::kOptimizerState);
  return all;
}

void Tracker::claim() {
  unrecorded_ = {};
  last_.device_at_end = {};
  device_.reset();
  std::set<const c10::StorageImpl*> seen;
  for (const auto& [tensor, owner] : claims()) {
    if (!tensor.defined() || !tensor.has_storage()) continue;
    const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
    if (!seen.insert(storage).second) continue;
    const auto bytes = static_cast<int64_t>(storage->nbytes());
    if (!tensor.is_cpu()) {
      device_ = tensor.device();
      last_.device_at_end[index_of(owner)] += bytes;
      continue;
    }
    Block* block = block_of(storage->data_ptr());
    if (block != nullptr && (block->flags & Block::kCounted) != 0)
      mark_owner(*block, owner);
    else
      unrecorded_[index_of(owner)] += bytes;
  }
}

void Tracker::map_layers() {
  if (recorded_level() < Level::kLayers) return;
  std::vector<const c10::StorageImpl*> storages;
  LayerMap layers;
  for (const auto& named : module_.named_parameters()) {
    const at::Tensor& parameter = named.value();
    if (!parameter.defined() || !parameter.has_storage()) continue;
    storages.push_back(parameter.storage().unsafeGetStorageImpl());
    layers.emplace(storages.back(), layer_id(layer_of_parameter(named.key())));
  }
  if (storages == mapped_) return;  // parameters seldom change their memory
  mapped_ = std::move(storages);
  set_layers(std::move(layers));
}

void Tracker::input(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  if (Block* block = block_of(tensor.storage().data_ptr())) mark_owner(*block, Owner::kInput);
}

void Tracker::fill_layers() {
  const std::vector<int64_t> end = cpu_layer_bytes(), peak = cpu_layer_bytes_at_peak();
  for (size_t i = 1; i < end.size(); ++i) {
    const int64_t at_peak = i < peak.size() ? peak[i] : 0;
    if (end[i] != 0 || at_peak != 0)
      last_.layers.push_back({layer_of(static_cast<uint32_t>(i)), end[i], at_peak});
  }
  std::stable_sort(last_.layers.begin(), last_.layers.end(), [](const auto& a, const auto& b) {
    return a.at_peak > b.at_peak;
  });
}

const IterationMemory& Tracker::end_iteration() {
  const OwnerBytes peak = cpu_owner_bytes_at_peak();
  const Counters counters = cpu_counters();
  last_ = {.iteration = iteration_};
  last_.allocations = counters.allocations - allocations_before_;
  last_.other_heap_bytes = muster::memory::other_heap_bytes();
  if (recorded_level() >= Level::kLayers) fill_layers();
  if (options_.level >= Level::kTags) claim();  // else what was there at the start stays
  const int64_t unrecorded = sum_of(unrecorded_);
  last_.end_bytes = counters.current + unrecorded;
  last_.peak_bytes = counters.peak + unrecorded;
  if (options_.level >= Level::kTags) {
    last_.at_end = cpu_owner_bytes();
    last_.at_peak = peak;
    // Blocks of a time when counters alone were recorded have no owner.
    last_.at_end[index_of(Owner::kOther)] += counters.current - sum_of(last_.at_end);
    last_.at_peak[index_of(Owner::kOther)] += counters.peak - sum_of(last_.at_peak);
    for (size_t i = 0; i < kOwners; ++i) {
      last_.at_end[i] += unrecorded_[i];
      last_.at_peak[i] += unrecorded_[i];
    }
  }
  if (device_.has_value()) {
    try {
      last_.device = device_counters(*device_);
      reset_device_peak(*device_);
    } catch (const Error&) {  // a device that does not count
    }
  }
  note_iteration(
      c10::Device(c10::kCPU),
      {.iteration = last_.iteration, .end_bytes = last_.end_bytes, .peak_bytes = last_.peak_bytes});
  if (last_.device.has_value())
    note_iteration(*device_,
                   {.iteration = last_.iteration,
                    .end_bytes = last_.device->current,
                    .peak_bytes = last_.device->peak});
  if (listener_) listener_(last_);
  map_layers();
  set_memory_iteration(first_mark_ + iteration_++);
  reset_cpu_peak();
  allocations_before_ = cpu_counters().allocations;
  return last_;
}

}  // namespace muster::memory
