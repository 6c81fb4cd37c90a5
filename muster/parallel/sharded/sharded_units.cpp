#include "muster/parallel/sharded/sharded_units.h"

#include <algorithm>
#include <set>
#include <utility>

#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/engine.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::parallel {
namespace {

/// Whether a parameter of that name is of the submodule, or is the one, that `unit` names.
bool is_in(const std::string& parameter, const std::string& unit) {
  return parameter.starts_with(unit) &&
         (parameter.size() == unit.size() || parameter[unit.size()] == '.');
}

Error refused_unit(const std::string& name, std::string rule, std::string value, std::string hint) {
  return usage_error({.refused = concat("unit \"", name, "\" of sharded weights"),
                      .rule = std::move(rule),
                      .value = std::move(value),
                      .hint = std::move(hint)});
}

struct Reset {
  std::optional<size_t>& value;
  ~Reset() { value.reset(); }
};

}  // namespace

UnitMap::UnitMap(const std::vector<ShardUnit>& units, const NamedTensors& parameters) : names_{""} {
  for (const ShardUnit& unit : units) {
    if (unit.name.empty()) throw refused_unit("", "units have names", "an empty one", "");
    if (named(unit.name) != 0) throw refused_unit(unit.name, "each unit once", "twice", "");
    names_.push_back(unit.name);
  }
  refuse_nested();
  std::unordered_map<const void*, std::set<size_t>> users;
  for (const auto& [name, tensor] : parameters) users[tensor.unsafeGetTensorImpl()];
  for (size_t i = 0; i < units.size(); ++i) {
    for (const at::Tensor& tensor : units[i].parameters) {
      const auto found = users.find(tensor.unsafeGetTensorImpl());
      if (found == users.end()) {
        throw refused_unit(
            units[i].name, "its parameters are the module's", "one that the module has not", "");
      }
      found->second.insert(i + 1);
    }
  }
  std::set<size_t> used;  // units
  for (const auto& [key, numbers] : users) used.insert(numbers.begin(), numbers.end());
  std::unordered_map<const void*, std::set<size_t>> by_name;
  for (const auto& [name, tensor] : parameters) {
    const void* key = tensor.unsafeGetTensorImpl();
    if (!users[key].empty()) continue;
    size_t unit = 0;
    for (size_t i = 0; i < units.size() && unit == 0; ++i) {
      if (units[i].parameters.empty() && is_in(name, units[i].name)) unit = i + 1;
    }
    by_name[key].insert(unit);
    used.insert(unit);
  }
  for (const auto& [key, numbers] : by_name) users[key].insert(numbers.begin(), numbers.end());
  for (const auto& [key, numbers] : users) units_[key] = numbers.size() == 1 ? *numbers.begin() : 0;
  for (size_t unit = 1; unit < names_.size(); ++unit) {
    if (used.contains(unit)) continue;
    std::vector<std::string> known;
    for (const auto& [name, tensor] : parameters) known.push_back(name.substr(0, name.rfind('.')));
    throw refused_unit(names_[unit],
                       "a submodule with parameters, by its name in the module",
                       "none of that name",
                       suggestion(names_[unit], known));
  }
}

void UnitMap::refuse_nested() const {
  for (size_t inner = 1; inner < names_.size(); ++inner) {
    for (size_t outer = 1; outer < names_.size(); ++outer) {
      if (inner == outer || !is_in(names_[inner], names_[outer])) continue;
      throw refused_unit(names_[inner],
                         "no unit lies in another one",
                         concat("it is a part of \"", names_[outer], '"'),
                         "name the outer or the inner ones");
    }
  }
}

size_t UnitMap::of(const at::Tensor& parameter) const {
  const auto found = units_.find(parameter.unsafeGetTensorImpl());
  return found == units_.end() ? 0 : found->second;
}

size_t UnitMap::named(std::string_view name) const {
  const auto found = std::find(names_.begin() + 1, names_.end(), name);
  return found == names_.end() ? 0 : static_cast<size_t>(found - names_.begin());
}

ShardedUnits::ShardedUnits(ShardedParameters& parameters, UnitMap units)
    : parameters_(parameters), units_(std::move(units)), buckets_(units_.size()) {
  for (size_t b = 0; b < parameters.buckets(); ++b) buckets_[parameters.unit(b)].push_back(b);
  for (size_t unit = 1; unit < units_.size(); ++unit) last_order_.push_back(unit);
}

void ShardedUnits::start(size_t unit) {
  for (const size_t bucket : buckets_[unit]) parameters_.start_gather(bucket);
}

void ShardedUnits::gather(size_t unit) {
  start(unit);
  for (const size_t bucket : buckets_[unit]) parameters_.finish_gather(bucket);
}

void ShardedUnits::release(size_t unit) {
  if (holds_ > 0) return;
  for (const size_t bucket : buckets_[unit]) parameters_.release(bucket);
}

void ShardedUnits::release_but(size_t kept) {
  for (size_t unit = 1; unit < buckets_.size(); ++unit) {
    if (unit != kept) release(unit);
  }
}

void ShardedUnits::begin_forward() {
  if (!order_.empty()) last_order_ = std::exchange(order_, {});
  release_but(0);
  gather(0);
}

void ShardedUnits::end_forward(const std::vector<at::Tensor>& outputs) {
  if (c10::GradMode::is_enabled()) return watch_backward(outputs, 0, std::nullopt);
  release_but(0);
  release(0);
}

std::vector<at::Tensor> ShardedUnits::call(std::string_view name,
                                           const tensor::UnitForward& forward,
                                           const std::vector<at::Tensor>& inputs) {
  const size_t unit = units_.named(name);
  if (unit == 0) return hand_on(name, forward, inputs);
  if (running_) {
    throw refused_unit(units_.name(unit),
                       "no unit is called by another one",
                       concat("\"", units_.name(*running_), "\" calls it"),
                       "name the outer or the inner ones");
  }
  const Reset reset{running_};
  running_ = unit;
  const size_t position = order_.size();
  const Number before = position > 0 ? Number(order_.back()) : std::nullopt;
  order_.push_back(unit);
  const bool as_before = position < last_order_.size() && last_order_[position] == unit;
  gather(unit);
  if (as_before && position + 1 < last_order_.size()) start(last_order_[position + 1]);
  std::vector<at::Tensor> outputs = hand_on(name, forward, inputs);
  const bool with_gradients = c10::GradMode::is_enabled();
  if (with_gradients) watch_backward(outputs, unit, before);
  // Of the last one backward begins at once.
  const bool is_last = as_before && position + 1 == last_order_.size();
  if (!with_gradients || !is_last) release(unit);
  return outputs;
}

void ShardedUnits::watch_backward(const std::vector<at::Tensor>& outputs,
                                  size_t unit,
                                  Number before) {
  if (!parameters_.shards_weights()) return;
  for (const at::Tensor& output : outputs) {
    if (!output.defined() || !output.requires_grad() || output.is_leaf()) continue;
    output.register_hook([self = weak_from_this(), unit, before](const at::Tensor& /*gradient*/) {
      if (const auto units = self.lock()) units->before_backward(unit, before);
    });
  }
}

void ShardedUnits::before_backward(size_t unit, Number before) {
  const c10::NoGradGuard no_grad;
  if (backward_.expired()) {
    const auto alive = std::make_shared<char>();
    backward_ = alive;
    in_backward_.reset();
    torch::autograd::Engine::get_default_engine().queue_callback([self = weak_from_this(), alive] {
      const auto units = self.lock();
      if (!units) return;
      units->backward_.reset();
      units->in_backward_.reset();
      units->release_but(0);
      units->release(0);
    });
  }
  gather(0);
  if (unit == 0 || in_backward_ == unit) return;  // by another one of its outputs
  in_backward_ = unit;
  release_but(unit);
  gather(unit);
  if (before) start(*before);
}

UnitsInForward::UnitsInForward(ShardedUnits& units)
    : scope_(units), autocast_caches_(at::autocast::is_autocast_cache_enabled()) {
  units.begin_forward();
  at::autocast::set_autocast_cache_enabled(false);
}

UnitsInForward::~UnitsInForward() { at::autocast::set_autocast_cache_enabled(autocast_caches_); }

void ShardedUnits::stand_aside() {
  begin_forward();
  for (const size_t unit : last_order_) {
    gather(unit);
    release(unit);
  }
  release(0);
}

void ShardedUnits::release_all() {
  if (holds_ > 0) {
    throw usage_error({.refused = "a step of ZeRO while all weights are held whole",
                       .rule = "the step changes the shards, not what was gathered",
                       .hint = "let what zero.whole_weights() gave end before the step"});
  }
  release_but(0);
  release(0);
}

void ShardedUnits::hold() {
  for (size_t unit = 0; unit < buckets_.size(); ++unit) gather(unit);
  ++holds_;
}

void ShardedUnits::release_held() {
  if (--holds_ > 0) return;
  // Whoever wrote may have done it past the version counters, as some backends' broadcasts do.
  for (size_t bucket = 0; bucket < parameters_.buckets(); ++bucket) parameters_.take_whole(bucket);
  release_but(0);
  release(0);
}

}  // namespace muster::parallel
