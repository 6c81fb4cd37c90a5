#include "muster/parallel/activations/run_state.h"

#include <mutex>
#include <utility>

#include <ATen/autocast_mode.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/GradMode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include "muster/tensor/device/generators.h"
#include "muster/tensor/device/streams.h"

namespace muster::parallel {
namespace {

std::vector<c10::Stream> streams_of(const std::vector<at::Tensor>& inputs) {
  std::vector<c10::Stream> streams;
  for (const c10::Device device : tensor::stream_devices(inputs)) {
    if (device.is_meta()) continue;
    streams.push_back(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  }
  return streams;
}

std::vector<at::Generator> default_generators(const std::vector<c10::Stream>& streams) {
  std::vector<at::Generator> generators = {tensor::default_generator(c10::kCPU)};
  for (const c10::Stream& stream : streams)
    generators.push_back(tensor::default_generator(stream.device()));
  return generators;
}

at::Tensor state_of(at::Generator generator) {
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_state(at::Generator generator, const at::Tensor& state) {
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

}  // namespace

namespace run_state {

/// While it lives, the thread casts as it did in a run.
class AutocastAgain {
 public:
  AutocastAgain(c10::DeviceType type, bool enabled, c10::ScalarType dtype)
      : type_(type),
        enabled_(at::autocast::is_autocast_enabled(type)),
        dtype_(at::autocast::get_autocast_dtype(type)) {
    at::autocast::set_autocast_enabled(type, enabled);
    at::autocast::set_autocast_dtype(type, dtype);
  }
  ~AutocastAgain() {
    at::autocast::set_autocast_enabled(type_, enabled_);
    at::autocast::set_autocast_dtype(type_, dtype_);
  }
  AutocastAgain(const AutocastAgain&) = delete;
  AutocastAgain& operator=(const AutocastAgain&) = delete;

 private:
  c10::DeviceType type_;
  bool enabled_;
  c10::ScalarType dtype_;
};

/// The cache of casts is the process's: what is cast meanwhile goes when the outermost region ends.
class AutocastRegion {
 public:
  explicit AutocastRegion(bool cache) : cache_(at::autocast::is_autocast_cache_enabled()) {
    at::autocast::increment_nesting();
    at::autocast::set_autocast_cache_enabled(cache);
  }
  ~AutocastRegion() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_cache_enabled(cache_);
  }
  AutocastRegion(const AutocastRegion&) = delete;
  AutocastRegion& operator=(const AutocastRegion&) = delete;

 private:
  bool cache_;
};

/// What generators have drawn meanwhile they have not.
class DrawsBack {
 public:
  explicit DrawsBack(std::vector<std::pair<at::Generator, at::Tensor>> states)
      : states_(std::move(states)) {}
  ~DrawsBack() {
    for (const auto& [generator, state] : states_) set_state(generator, state);
  }
  DrawsBack(const DrawsBack&) = delete;
  DrawsBack& operator=(const DrawsBack&) = delete;

 private:
  std::vector<std::pair<at::Generator, at::Tensor>> states_;
};

}  // namespace run_state

ScratchBuffers::ScratchBuffers(const std::vector<at::Tensor>& buffers) {
  const c10::NoGradGuard plain;
  for (const at::Tensor& buffer : buffers) {
    if (!buffer.defined()) continue;
    owned_.emplace_back(buffer, buffer.variable_data());
    owned_.back().first.set_data(buffer.detach().clone());
  }
}

ScratchBuffers::~ScratchBuffers() {
  for (auto& [buffer, memory] : owned_) buffer.set_data(memory);
}

std::vector<RunState::Draws> RunState::drawn(const std::vector<at::Generator>& generators) {
  std::vector<Draws> draws;
  for (const at::Generator& generator : generators) {
    if (generator.defined()) draws.push_back({generator, state_of(generator)});
  }
  return draws;
}

std::vector<RunState::Autocast> RunState::autocasts(const std::vector<c10::Stream>& streams) {
  std::vector<c10::DeviceType> types = {c10::kCPU};
  if (!streams.empty()) types.push_back(streams.front().device_type());
  std::vector<Autocast> found;
  for (const c10::DeviceType type : types) {
    if (!at::autocast::is_autocast_available(type)) continue;
    found.push_back(
        {type, at::autocast::is_autocast_enabled(type), at::autocast::get_autocast_dtype(type)});
  }
  return found;
}

RunState::RunState(const std::vector<at::Tensor>& inputs,
                   const std::optional<std::vector<at::Generator>>& generators)
    : streams_(streams_of(inputs)),
      draws_(drawn(generators ? *generators : default_generators(streams_))),
      autocasts_(autocasts(streams_)),
      autocast_cache_(at::autocast::is_autocast_cache_enabled()),
      dispatch_keys_(c10::impl::tls_local_dispatch_key_set()),
      norms_(BatchNormsOverRanks::holding()) {
  if (streams_.empty()) return;
  device_ = c10::impl::VirtualGuardImpl(streams_.front().device_type()).getDevice();
}

// In the order in which they are taken; given back in the reverse one.
struct RunState::Restored::Guards {
  std::optional<c10::OptionalDeviceGuard> device;
  std::optional<c10::MultiStreamGuard> streams;
  std::optional<c10::impl::ForceDispatchKeyGuard> dispatch_keys;
  std::optional<run_state::AutocastRegion> region;
  std::vector<std::unique_ptr<run_state::AutocastAgain>> autocasts;
  std::optional<ScratchBuffers> buffers;
  std::optional<run_state::DrawsBack> draws;
  std::optional<BatchNormsOverRanks> norms;
  std::optional<c10::AutoGradMode> gradients;
};

RunState::Restored::Restored(const RunState& state, const std::vector<at::Tensor>& buffers)
    : guards_(std::make_unique<Guards>()) {
  Guards& guards = *guards_;
  if (state.device_) guards.device.emplace(*state.device_);
  if (!state.streams_.empty()) guards.streams.emplace(state.streams_);
  guards.buffers.emplace(buffers);
  std::vector<std::pair<at::Generator, at::Tensor>> before;
  for (const Draws& draws : state.draws_)
    before.emplace_back(draws.generator, state_of(draws.generator));
  guards.draws.emplace(std::move(before));
  for (const Draws& draws : state.draws_) set_state(draws.generator, draws.state);
  guards.dispatch_keys.emplace(state.dispatch_keys_);
  guards.region.emplace(state.autocast_cache_);
  for (const Autocast& autocast : state.autocasts_) {
    guards.autocasts.push_back(std::make_unique<run_state::AutocastAgain>(
        autocast.type, autocast.enabled, autocast.dtype));
  }
  guards.norms.emplace(state.norms_.group, state.norms_.counts);
  guards.gradients.emplace(true);
}

RunState::Restored::~Restored() = default;

}  // namespace muster::parallel
