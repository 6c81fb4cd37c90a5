// Source: Rajbhandari et al. 2020, "ZeRO", section 5.3; Zhao et al. 2023, "PyTorch FSDP".
#include "muster/base/text.h"
#include "muster/tensor/unit_call.h"
#include "muster/train/replicas/zero_strategy.h"

namespace muster::train {
namespace {

constexpr std::string_view kFsdp = "strategy fsdp";

struct FsdpOptions {
  std::string dtype = "float32";
};

constexpr Param kFsdpParams[] = {param<&FsdpOptions::dtype>(
    "dtype", "of parameters and gradients; bfloat16 keeps float32 masters in shards")};

void check_fsdp(const FitOptions& options, const FitNumbers& numbers, const ParamValues& params) {
  const auto own = resolve_params<FsdpOptions>(kFsdpParams, params, kFsdp);
  detail::check_shards(options, numbers, own.dtype, kFsdp);
  if (options.ema_decay != 0 && own.dtype == "bfloat16") {
    throw usage_error({.refused = concat(kFsdp, " with --ema-decay"),
                       .rule = "averages in shards have the weights' dtype, of 32 bits",
                       .value = "dtype=bfloat16",
                       .hint = "take --strategy zero2:dtype=bfloat16, or leave --ema-decay away"});
  }
}

std::vector<tensor::Unit> fsdp_units(torch::nn::Module& module) {
  std::vector<tensor::Unit> units = tensor::units_of(module);
  if (!units.empty()) return units;
  throw usage_error({.refused = std::string(kFsdp),
                     .rule = "the model is made of parts, whose weights come and go",
                     .value = concat(module.name(), ", which has none"),
                     .hint = "a module derives from tensor::HasUnits, as all of the zoo, and calls "
                             "its units by tensor::call_unit(); or take --strategy zero2"});
}

std::unique_ptr<Strategy> make_fsdp(StrategyRequest request, const ParamValues& params) {
  parallel::ZeroOptions options{
      .stage = 3, .units = fsdp_units(*request.module), .device = request.device};
  return detail::make_sharded(std::move(options),
                              resolve_params<FsdpOptions>(kFsdpParams, params, kFsdp).dtype,
                              std::move(request));
}

}  // namespace

extern constinit const StrategyEntry fsdp_entry{
    .name = "fsdp",
    .help = "as zero2, with the weights in shards too, gathered part by part (ZeRO-3)",
    .ranks = RankSource::kProcesses,
    .params = kFsdpParams,
    .check = &check_fsdp,
    .make = &make_fsdp,
    .takes_whole_task = true,
    .places_units = true,
    .check_module =
        [](torch::nn::Module& module, const FitPlan&, const ParamValues&, const Json&) {
          fsdp_units(module);
        },
    .divides_model = true,
    .also_called = "zero3"};

}  // namespace muster::train
