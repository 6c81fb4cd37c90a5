#include "muster/train/plan/precision.h"

#include <cmath>
#include <limits>
#include <vector>

#include <ATen/ops/full.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

namespace muster::train {
namespace {

using parallel::GradScalerOptions;

constexpr Param kScalerParams[] = {
    param<&GradScalerOptions::init_scale>("init_scale", "the loss is multiplied by it at first"),
    param<&GradScalerOptions::growth_factor>("growth_factor", "by which the scale grows"),
    param<&GradScalerOptions::backoff_factor>("backoff_factor", "by which it falls"),
    param<&GradScalerOptions::growth_interval>("growth_interval",
                                               "steps without overflow before it grows")};

/// What GradScaler takes for an optimizer.
struct Stepping {
  std::vector<at::Tensor> with_gradients;
  const std::function<void()>& update;

  const std::vector<at::Tensor>& parameters() const { return with_gradients; }
  void step() const { update(); }
};

GradScalerOptions parse_scaler(const ParamValues& params) {
  const auto options =
      resolve_params<GradScalerOptions>(kScalerParams, params, "--precision 16-mixed");
  if (!(options.init_scale >= 1 && options.init_scale <= std::numeric_limits<float>::max())) {
    throw usage_error({.refused = "--precision 16-mixed: init_scale",
                       .rule = "at least 1, and a float32",
                       .value = shortest(options.init_scale)});
  }
  // The rest of GradScaler's rules, by the names that a user typed.
  const auto check = [](bool right, const char* name, const char* rule, const std::string& value) {
    if (!right)
      throw usage_error(
          {.refused = concat("--precision 16-mixed: ", name), .rule = rule, .value = value});
  };
  check(options.growth_factor > 1, "growth_factor", "above 1", shortest(options.growth_factor));
  check(options.backoff_factor > 0 && options.backoff_factor < 1,
        "backoff_factor",
        "between 0 and 1",
        shortest(options.backoff_factor));
  check(options.growth_interval >= 1,
        "growth_interval",
        "at least 1",
        std::to_string(options.growth_interval));
  return options;
}

}  // namespace

PrecisionOptions parse_precision(const std::string& name, const ParamValues& params) {
  const std::vector<std::string> known{"32", "bf16-mixed", "16-mixed"};
  if (name == known[2]) return {.kind = Precision::kFloat16Mixed, .scaler = parse_scaler(params)};
  if (name != known[0] && name != known[1]) {
    throw usage_error({.refused = "--precision",
                       .rule = join(known, " or "),
                       .value = name,
                       .hint = suggestion(name, known)});
  }
  check_param_names({}, params, concat("--precision ", name));
  return {.kind = name == known[0] ? Precision::kFloat32 : Precision::kBfloat16Mixed};
}

std::string describe(const PrecisionOptions& options) {
  if (options.kind == Precision::kFloat32) return "float32";
  const bool scales = options.kind == Precision::kFloat16Mixed;
  return concat("autocast to ",
                scales ? "float16" : "bfloat16",
                "; weights, gradients and optimizer state in float32",
                scales ? concat("; loss scale ",
                                shortest(options.scaler.init_scale),
                                " at first, times ",
                                shortest(options.scaler.growth_factor),
                                " after ",
                                options.scaler.growth_interval,
                                " steps without overflow, times ",
                                shortest(options.scaler.backoff_factor),
                                " after one with")
                       : "");
}

PrecisionGuard::PrecisionGuard(Precision precision, c10::Device device) {
  if (precision == Precision::kFloat32) return;
  const auto dtype = precision == Precision::kBfloat16Mixed ? at::kBFloat16 : at::kHalf;
  autocast_.emplace(device.type(), parallel::AutocastOptions{.dtype = dtype, .cache = false});
}

LossScaler::LossScaler(const PrecisionOptions& options, const distributed::ProcessGroup& group)
    : scaler_(
          [&] {
            GradScalerOptions scaler = options.scaler;
            scaler.enabled = options.kind == Precision::kFloat16Mixed;
            return scaler;
          }(),
          group) {}

bool LossScaler::step(optim::Optimizer& optimizer,
                      bool finite,
                      const std::function<void()>& update) {
  return step(
      optimizer,
      enabled() ? at::full({}, finite ? 0 : std::numeric_limits<float>::quiet_NaN()) : at::Tensor(),
      update);
}

bool LossScaler::step(optim::Optimizer& optimizer,
                      const at::Tensor& loss,
                      const std::function<void()>& update) {
  if (!enabled()) {
    update();
    return true;
  }
  Stepping stepping{.with_gradients = optimizer.parameters(), .update = update};
  // A loss can be infinite where all gradients are finite; it counts as one more gradient.
  at::Tensor one_more = at::full({1}, 1.0F, loss.options().dtype(at::kFloat));
  one_more.mutable_grad() = (loss.detach() * 0).to(at::kFloat).view({1});
  stepping.with_gradients.push_back(one_more);
  const bool made = scaler_.step(stepping);
  scaler_.update();
  if (!made) ++skipped_;
  return made;
}

Json LossScaler::state() const {
  if (!enabled()) return Json::object();
  Json state = scaler_.state();
  state["skipped_steps"] = skipped_;
  return state;
}

void LossScaler::load_state(const Json& state) {
  if (!enabled() || state.empty()) return;
  scaler_.load_state(state);
  skipped_ = state.value("skipped_steps", int64_t{0});
}

}  // namespace muster::train
