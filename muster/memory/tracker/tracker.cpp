#include "muster/memory/tracker/tracker.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <string_view>
#include <utility>

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/memory/allocator/habits.h"
#include "muster/memory/allocator/names.h"
#include "muster/memory/allocator/operators.h"
#include "muster/memory/allocator/process_bytes.h"
#include "muster/memory/tracker/owned_tensors.h"
#include "muster/memory/tracker/recent.h"

namespace muster::memory {
namespace {

std::atomic<bool> tracker_lives{false};

constexpr uint32_t kLookedAtFirst = 3;

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

Tracker::OnlyOne::OnlyOne(const TrackerOptions& options) {
  if (options.level == Level::kOff) {
    throw usage_error({.refused = "a memory::Tracker of Level::kOff",
                       .rule = "it counts bytes at least",
                       .hint = "Level::kCounters"});
  }
  if (options.looks_every == 0) {
    throw usage_error({.refused = "a memory::Tracker that looks every 0 iterations",
                       .rule = "looks_every is at least 1",
                       .hint = "1 looks at operators and module in all"});
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
      only_one_(options_),
      recording_(options_.level) {
  first_mark_ = memory_iteration() + 1;
  set_memory_iteration(first_mark_);
  look_at_module();
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

/// Walking a module makes the names of all its tensors, which costs more than all else here.
void Tracker::look_at_module() {
  parameters_.clear();
  layers_.clear();
  for (const auto& named : module_.named_parameters()) {
    parameters_.push_back(named.value());
    if (recorded_level() >= Level::kLayers)
      layers_.push_back(layer_id(layer_of_parameter(named.key())));
  }
  buffers_ = module_.buffers();
}

/// What is claimed twice is whose it was claimed for last: of tied memory, the parameter's.
void Tracker::claim() {
  unrecorded_storages_.clear();
  std::vector<at::Tensor> state;
  if (options_.optimizer_state)
    state = options_.optimizer_state();
  else if (optimizer_ != nullptr)
    state = state_tensors(*optimizer_);
  for (const at::Tensor& tensor : state) claim_one(tensor, Owner::kOptimizerState);
  for (const at::Tensor& buffer : buffers_) claim_one(buffer, Owner::kBuffer);
  for (const at::Tensor& parameter : parameters_) {
    if (parameter.defined()) claim_one(parameter.grad(), Owner::kGradient);
  }
  for (const at::Tensor& parameter : parameters_) claim_one(parameter, Owner::kParameter);
  sum_unrecorded();
}

void Tracker::claim_one(const at::Tensor& tensor, Owner owner) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  if (tensor.is_cpu()) {
    Block* block = block_of(storage->data_ptr());
    if (block != nullptr && (block->flags & Block::kCounted) != 0) return mark_owner(*block, owner);
  }
  unrecorded_storages_.push_back(
      {storage, tensor.device(), owner, static_cast<int64_t>(storage->nbytes())});
}

void Tracker::sum_unrecorded() {
  unrecorded_ = {};
  last_.device_at_end = {};
  device_.reset();
  std::stable_sort(
      unrecorded_storages_.begin(),
      unrecorded_storages_.end(),
      [](const Unrecorded& a, const Unrecorded& b) { return std::less<>()(a.storage, b.storage); });
  for (size_t i = 0; i < unrecorded_storages_.size(); ++i) {
    const Unrecorded& one = unrecorded_storages_[i];
    if (i + 1 < unrecorded_storages_.size() && unrecorded_storages_[i + 1].storage == one.storage)
      continue;
    if (one.device.is_cpu()) {
      unrecorded_[index_of(one.owner)] += one.bytes;
    } else {
      device_ = one.device;
      last_.device_at_end[index_of(one.owner)] += one.bytes;
    }
  }
}

/// Whether nothing is taken from the iterations before.
bool Tracker::is_looked_at(uint32_t iteration) const {
  return iteration <= kLookedAtFirst || iteration % options_.looks_every == 0;
}

/// In the iteration that begins.
void Tracker::name_operators() {
  // What came in the midst of this one may come at the start of the next.
  recording_.name_operators(is_looked_at(iteration_) || misses_names() || habits_mislead()
                                ? Recording::Names::kTold
                                : Recording::Names::kByHabit);
}

void Tracker::map_layers() {
  if (recorded_level() < Level::kLayers) return;
  if (layers_.size() != parameters_.size()) look_at_module();  // the recording has begun since
  std::vector<const c10::StorageImpl*> storages;
  storages.reserve(parameters_.size());
  for (const at::Tensor& parameter : parameters_)
    storages.push_back(parameter.defined() && parameter.has_storage()
                           ? parameter.storage().unsafeGetStorageImpl()
                           : nullptr);
  if (storages == mapped_) return;  // parameters seldom change their memory
  LayerMap layers;
  for (size_t i = 0; i < storages.size(); ++i)
    if (storages[i] != nullptr) layers.emplace(storages[i], layers_[i]);
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
  const bool has_owners = options_.level >= Level::kTags;  // else what was there at the start stays
  const OwnerBytes peak = has_owners ? cpu_owner_bytes_at_peak() : OwnerBytes{};
  const Counters counters = cpu_counters();
  const IterationMemory before = std::exchange(last_, {.iteration = iteration_});
  last_.allocations = counters.allocations - allocations_before_;
  if (recorded_level() >= Level::kTags || is_looked_at(iteration_)) {
    const HeapBytes heap = heap_bytes();
    last_.other_heap_bytes = std::max<int64_t>(0, heap.in_use - counters.current);
    last_.heap_from_system = heap.from_system;
  } else {  // the heap is asked in more instructions than all else here takes
    last_.other_heap_bytes = before.other_heap_bytes;
    last_.heap_from_system = before.heap_from_system;
  }
  if (recorded_level() >= Level::kLayers) fill_layers();
  // A module that has got a tensor has allocated it, as a rule in an iteration like no other.
  if ((has_owners || recorded_level() >= Level::kLayers) &&
      (is_looked_at(iteration_) || last_.allocations != before.allocations))
    look_at_module();
  if (has_owners) claim();
  const int64_t unrecorded = sum_of(unrecorded_);
  last_.end_bytes = counters.current + unrecorded;
  last_.peak_bytes = counters.peak + unrecorded;
  if (has_owners) {
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
  name_operators();
  reset_cpu_peak();
  allocations_before_ = cpu_counters().allocations;
  return last_;
}

}  // namespace muster::memory
