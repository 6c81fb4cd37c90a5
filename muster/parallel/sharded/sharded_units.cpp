#include "muster/parallel/sharded/sharded_units.h"

#include <algorithm>
#include <set>
#include <utility>

#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/custom_class.h>

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

ShardedUnits::ShardedUnits(ShardedParameters& parameters, ShardedParameters* frozen, UnitMap units)
    : parameters_(parameters), units_(std::move(units)), buckets_(units_.size()) {
  for (ShardedParameters* part : {&parameters, frozen}) {
    for (size_t b = 0; part != nullptr && b < part->buckets(); ++b)
      buckets_[part->unit(b)].push_back({part, b});
  }
  for (size_t unit = 1; unit < units_.size(); ++unit) last_order_.push_back(unit);
}

void ShardedUnits::start(size_t unit) {
  for (const Bucket& bucket : buckets_[unit]) bucket.of->start_gather(bucket.number);
}

void ShardedUnits::gather(size_t unit) {
  start(unit);
  for (const Bucket& bucket : buckets_[unit]) bucket.of->finish_gather(bucket.number);
}

void ShardedUnits::release(size_t unit) {
  if (holds_ > 0) return;
  for (const Bucket& bucket : buckets_[unit]) bucket.of->release(bucket.number);
}

void ShardedUnits::release_but(size_t kept) {
  for (size_t unit = 1; unit < buckets_.size(); ++unit) {
    if (unit != kept) release(unit);
  }
}

void ShardedUnits::begin_forward(bool in_named_order) {
  if (c10::GradMode::is_enabled() && !order_.empty()) last_order_ = std::exchange(order_, {});
  called_ = 0;
  in_named_order_ = in_named_order;
  release_but(0);
  rest_stays_ = is_whole(0);
  gather(0);
}

void ShardedUnits::end_forward() {
  if (c10::GradMode::is_enabled()) return;
  release_but(0);
  if (!rest_stays_) release(0);
  if (!in_named_order_ || called_ + 1 == buckets_.size()) return;
  throw refused_unit(units_.name(called_ + 1),
                     "a forward that other ranks stand aside from calls every unit",
                     concat(called_, " of ", buckets_.size() - 1, " calls"),
                     "");
}

bool ShardedUnits::is_whole(size_t unit) const {
  return std::ranges::all_of(
      buckets_[unit], [](const Bucket& bucket) { return bucket.of->is_gathered(bucket.number); });
}

/// What is sent for while `unit` runs: what came next last time, or by name.
ShardedUnits::Number ShardedUnits::next_of(size_t unit) {
  if (c10::GradMode::is_enabled()) {
    const size_t next = order_.size();  // it is in
    const bool as_before = next < last_order_.size() && last_order_[next - 1] == unit;
    return as_before ? Number(last_order_[next]) : std::nullopt;
  }
  ++called_;
  if (in_named_order_ && unit != called_) {
    throw refused_unit(
        units_.name(unit),
        "a forward that other ranks stand aside from calls units in the order in which "
        "they were named",
        concat("call ", called_),
        "name them in the order of their calls");
  }
  return unit + 1 < buckets_.size() ? Number(unit + 1) : std::nullopt;
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
  const bool with_gradients = c10::GradMode::is_enabled();
  const Run run{.unit = unit,
                .before = order_.empty() ? std::nullopt : Number(order_.back()),
                .is_first = std::ranges::find(order_, unit) == order_.end()};
  if (with_gradients) order_.push_back(unit);
  const Number next = next_of(unit);
  gather(unit);
  if (next) start(*next);
  std::vector<at::Tensor> outputs = hand_on(name, forward, inputs);
  // Of the last one backward begins at once.
  const bool is_last = with_gradients && order_ == last_order_;
  if (!is_last) release(unit);
  return with_gradients ? gated(std::move(outputs), run) : outputs;
}

/// Behind a unit's outputs: backward comes here before it comes to the unit.
struct ShardedUnits::Gate : torch::autograd::Function<Gate> {
  struct Kept : torch::CustomClassHolder {
    std::weak_ptr<ShardedUnits> units;
    Run run;
  };

  /// The same memory and version, and no view: it may be changed in place as any result.
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                const c10::intrusive_ptr<Kept>& kept,
                                                at::TensorList outputs) {
    context->set_materialize_grads(false);
    context->saved_data["kept"] = c10::IValue::make_capsule(kept);
    torch::autograd::variable_list same;
    for (const at::Tensor& output : outputs) same.push_back(output.detach());
    return same;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto kept =
        c10::static_intrusive_pointer_cast<Kept>(context->saved_data["kept"].toCapsule());
    if (const auto units = kept->units.lock()) units->before_backward(kept->run);
    gradients.insert(gradients.begin(), at::Tensor());  // of `kept`
    return gradients;
  }
};

std::vector<at::Tensor> ShardedUnits::gated(std::vector<at::Tensor> outputs, const Run& run) {
  if (!parameters_.shards_weights()) return outputs;
  std::vector<at::Tensor> in_graph;
  for (const at::Tensor& output : outputs) {
    if (output.defined() && output.requires_grad()) in_graph.push_back(output);
  }
  if (in_graph.empty()) return outputs;
  const auto kept = c10::make_intrusive<Gate::Kept>();
  kept->units = weak_from_this();
  kept->run = run;
  const auto same = Gate::apply(kept, at::TensorList(in_graph));
  size_t next = 0;
  for (at::Tensor& output : outputs) {
    if (output.defined() && output.requires_grad()) output = same[next++];
  }
  return outputs;
}

void ShardedUnits::before_backward(const Run& run) {
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
    });
    if (begins_) begins_();
  }
  leave_backward();
  release_but(run.unit);
  gather(0);
  gather(run.unit);
  if (run.before) start(*run.before);
  in_backward_ = run;
}

void ShardedUnits::leave_backward() {
  const auto left = std::exchange(in_backward_, std::nullopt);
  if (!left || !left->is_first || !over_) return;
  for (const Bucket& bucket : buckets_[left->unit])
    if (bucket.of == &parameters_) over_(bucket.number);
}

UnitsInForward::UnitsInForward(ShardedUnits& units, bool in_named_order)
    : scope_(units), autocast_caches_(at::autocast::is_autocast_cache_enabled()) {
  units.begin_forward(in_named_order);
  at::autocast::set_autocast_cache_enabled(false);
}

UnitsInForward::~UnitsInForward() { at::autocast::set_autocast_cache_enabled(autocast_caches_); }

void ShardedUnits::stand_aside() {
  const c10::NoGradGuard no_grad;
  begin_forward();
  for (size_t unit = 1; unit < buckets_.size(); ++unit) {
    gather(unit);
    if (unit + 1 < buckets_.size()) start(unit + 1);
    release(unit);
  }
  end_forward();
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
  if (holds_ == 0) rest_stays_ = is_whole(0);
  for (size_t unit = 0; unit < buckets_.size(); ++unit) gather(unit);
  ++holds_;
}

void ShardedUnits::take_held() {
  if (holds_ == 0) return;
  // Whoever wrote may have done it past the version counters, as some backends' broadcasts do.
  for (const auto& of_unit : buckets_)
    for (const Bucket& bucket : of_unit) bucket.of->take_whole(bucket.number);
}

void ShardedUnits::release_held() {
  if (holds_ == 1) take_held();
  if (--holds_ > 0) return;
  release_but(0);
  if (!rest_stays_) release(0);
}

}  // namespace muster::parallel
