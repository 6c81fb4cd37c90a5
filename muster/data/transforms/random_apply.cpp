// torchvision's RandomApply.
#include "muster/data/transform/compose.h"

namespace muster::data {
namespace {

struct RandomApplyOptions {
  double p = 0.5;
};

constexpr Param kRandomApplyParams[] = {
    param<&RandomApplyOptions::p>("p", "how likely a sample goes through all of them, 0 to 1"),
};

std::shared_ptr<const Transform> compose_random_apply(const ParamValues& params,
                                                      const std::vector<InnerStep>& inside,
                                                      const DataSpec& before) {
  const auto options =
      resolve_params<RandomApplyOptions>(kRandomApplyParams, params, "transform random_apply");
  return random_apply(makers_of(inside), options.p)(before);
}

}  // namespace

extern constinit const TransformEntry random_apply_entry{
    .name = "random_apply",
    .help = "random_apply(step|step): all of its steps for some samples, none for the others",
    .params = kRandomApplyParams,
    .make = nullptr,
    .compose = &compose_random_apply,
};

}  // namespace muster::data
