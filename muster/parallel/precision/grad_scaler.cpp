#include "muster/parallel/precision/grad_scaler.h"

#include <cmath>
#include <cstdint>
#include <utility>

#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

namespace muster::parallel {
namespace {

/// What the kernel changes for a gradient. A sparse one has its values multiplied.
at::Tensor values_of(const at::Tensor& gradient) {
  return gradient.is_sparse() ? gradient._values() : gradient;
}

/// Lists of one device and dtype, as the kernel wants them.
std::vector<std::vector<at::Tensor>> grouped_gradients(const std::vector<at::Tensor>& parameters) {
  std::vector<std::vector<at::Tensor>> groups;
  for (const at::Tensor& parameter : parameters) {
    if (!parameter.grad().defined()) continue;
    const at::Tensor values = values_of(parameter.grad());
    std::vector<at::Tensor>* found = nullptr;
    for (auto& group : groups) {
      if (group[0].device() == values.device() && group[0].scalar_type() == values.scalar_type())
        found = &group;
    }
    (found != nullptr ? *found : groups.emplace_back()).push_back(values);
  }
  return groups;
}

[[noreturn]] void refuse_order(const std::string& call, const std::string& rule) {
  throw usage_error({.refused = concat("GradScaler::", call),
                     .rule = rule,
                     .hint = "the order is scale(loss).backward(), unscale(optimizer) if wanted, "
                             "step(optimizer), update()"});
}

/// As the number that the kernels take of it: what is too large for one is infinite here, what is too
/// small is 0.
float as_scale(double number) { return static_cast<float>(number); }

void require_number(bool holds, const char* name, const char* rule, const std::string& value) {
  if (holds) return;
  throw usage_error(
      {.refused = concat("GradScaler: ", name),
       .rule = rule,
       .value = value,
       .hint = "the scale is a float32; the defaults are 65536, 2, 0.5 and 2000 steps"});
}

void check_scale(const char* name, double scale) {
  const float as_float = as_scale(scale);
  require_number(std::isfinite(as_float) && as_float > 0,
                 name,
                 "above 0 and finite, as a float32",
                 shortest(scale));
}

void check_options(const GradScalerOptions& options) {
  check_scale("init_scale", options.init_scale);
  const float growth = as_scale(options.growth_factor), backoff = as_scale(options.backoff_factor);
  require_number(growth > 1 && std::isfinite(growth),
                 "growth_factor",
                 "above 1 and finite, as a float32",
                 shortest(options.growth_factor));
  require_number(backoff > 0 && backoff < 1,
                 "backoff_factor",
                 "between 0 and 1, as a float32",
                 shortest(options.backoff_factor));
  require_number(options.growth_interval > 0 && options.growth_interval <= INT32_MAX,
                 "growth_interval",
                 "1 to 2147483647 steps: they are counted in 31 bits",
                 std::to_string(options.growth_interval));
}

[[noreturn]] void refuse_state(const Json& state) {
  throw usage_error({.refused = "state of a GradScaler",
                     .rule = "scale, growth_factor and backoff_factor are numbers, "
                             "growth_interval and _growth_tracker counts of at most 2147483647",
                     .value = json_text(state),
                     .hint = "a scaler that was not enabled has an empty state"});
}

int64_t count_of(const Json& state, const char* name) {
  const Json& value = state.at(name);
  const bool is_count = value.is_number_integer() && value >= 0 && value <= INT32_MAX;
  if (!is_count) refuse_state(state);
  return value.get<int64_t>();
}

}  // namespace

GradScaler::GradScaler(GradScalerOptions options, std::optional<distributed::ProcessGroup> group)
    : options_(options), group_(std::move(group)) {
  check_options(options_);
}

void GradScaler::place(at::Device device) {
  if (scale_.defined()) return;
  scale_ = at::full({}, options_.init_scale, at::TensorOptions().device(device).dtype(at::kFloat));
  tracker_ = at::zeros({}, at::TensorOptions().device(device).dtype(at::kInt));
}

void GradScaler::require_scale(const char* call) const {
  if (!scale_.defined()) refuse_order(call, "scale() comes first");
}

at::Tensor GradScaler::scale(const at::Tensor& outputs) {
  if (!options_.enabled) return outputs;
  place(outputs.device());
  return outputs * scale_.to(outputs.device());
}

void GradScaler::unscale(const void* optimizer,
                         const std::vector<at::Tensor>& parameters,
                         const distributed::ProcessGroup* group) {
  if (!options_.enabled) return;
  require_scale("unscale");
  OfOptimizer& state = optimizers_[optimizer];
  if (state.stage != Stage::kReady)
    refuse_order("unscale", "once per optimizer and update(), before its step");
  const c10::NoGradGuard no_grad;
  // The reciprocal in float64, as PyTorch.
  const at::Tensor inverse = scale_.to(at::kDouble).reciprocal().to(at::kFloat);
  const auto groups = grouped_gradients(parameters);
  at::Tensor found = at::zeros({}, scale_.options());
  for (const auto& gradients : groups) {
    if (gradients[0].scalar_type() == at::kHalf) {
      throw usage_error({.refused = "GradScaler: float16 gradients",
                         .rule = "parameters are float32 and forward runs under AutocastGuard",
                         .hint = "do not convert the module to float16"});
    }
    at::Tensor here = at::zeros({}, scale_.options().device(gradients[0].device()));
    at::_amp_foreach_non_finite_check_and_unscale_(
        gradients, here, inverse.to(gradients[0].device()));
    found += here.to(found.device());
  }
  at::Tensor both = at::stack({found, at::full({}, groups.empty() ? 0 : 1, found.options())});
  if (group != nullptr && group->world_size() > 1) {
    both = both.to(group->device());
    group->all_reduce(both, c10d::ReduceOp::MAX);
  }
  both = both.to(scale_.device());
  state = {.stage = Stage::kUnscaled, .found_inf = both[0], .found_any = both[1]};
}

bool GradScaler::begin_step(const void* optimizer,
                            const std::function<std::vector<at::Tensor>()>& parameters,
                            const distributed::ProcessGroup* group) {
  if (!options_.enabled) return true;
  require_scale("step");
  if (optimizers_[optimizer].stage == Stage::kReady) unscale(optimizer, parameters(), group);
  OfOptimizer& state = optimizers_[optimizer];
  if (state.stage == Stage::kStepped) refuse_order("step", "once per optimizer and update()");
  if (state.found_any.item<float>() == 0) {
    throw usage_error({.refused = "GradScaler::step",
                       .rule = "a parameter of the optimizer has a gradient",
                       .value = "none has, on any rank",
                       .hint = "an optimizer over the shards of ZeRO: "
                               "auto sharded = zero.optimizer(adam); scaler.step(sharded)"});
  }
  state.stage = Stage::kStepped;
  const bool make = state.found_inf.item<float>() == 0;
  if (!make) ++skipped_;
  return make;
}

void GradScaler::update() {
  if (!options_.enabled) return;
  require_scale("update");
  at::Tensor found;
  for (const auto& [optimizer, state] : optimizers_) {
    if (state.found_inf.defined())
      found = found.defined() ? found + state.found_inf : state.found_inf;
  }
  if (!found.defined()) refuse_order("update", "some optimizer was stepped or unscaled before");
  const c10::NoGradGuard no_grad;
  at::_amp_update_scale_(scale_,
                         tracker_,
                         found,
                         options_.growth_factor,
                         options_.backoff_factor,
                         options_.growth_interval);
  optimizers_.clear();
}

void GradScaler::update(double new_scale) {
  if (!options_.enabled) return;
  require_scale("update");
  check_scale("new_scale", new_scale);
  const c10::NoGradGuard no_grad;
  scale_.fill_(new_scale);
  optimizers_.clear();
}

double GradScaler::scale() const {
  if (!options_.enabled) return 1;
  return scale_.defined() ? static_cast<double>(scale_.item<float>()) : options_.init_scale;
}

Json GradScaler::state() const {
  if (!options_.enabled) return Json::object();
  return {{"scale", scale()},
          {"growth_factor", options_.growth_factor},
          {"backoff_factor", options_.backoff_factor},
          {"growth_interval", options_.growth_interval},
          {"_growth_tracker", tracker_.defined() ? tracker_.item<int32_t>() : 0}};
}

void GradScaler::load_state(const Json& state) {
  if (!options_.enabled) return;
  GradScalerOptions loaded = options_;
  int32_t tracker = 0;
  try {
    loaded.init_scale = state.at("scale").get<double>();
    loaded.growth_factor = state.at("growth_factor").get<double>();
    loaded.backoff_factor = state.at("backoff_factor").get<double>();
    loaded.growth_interval = count_of(state, "growth_interval");
    tracker = static_cast<int32_t>(count_of(state, "_growth_tracker"));
  } catch (const Json::exception&) {
    refuse_state(state);
  }
  check_scale("scale", loaded.init_scale);
  check_options(loaded);
  options_ = loaded;
  const at::Device device = scale_.defined() ? scale_.device() : at::Device(at::kCPU);
  scale_ = at::Tensor();
  place(device);
  tracker_.fill_(tracker);
}

}  // namespace muster::parallel
