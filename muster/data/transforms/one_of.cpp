// albumentations' OneOf.
#include "muster/data/transform/compose.h"

namespace muster::data {
namespace {

struct OneOfParams {
  double p = 0.5;
};

constexpr Param kOneOfParams[] = {
    param<&OneOfParams::p>("p", "how likely it is that one is done, 0 to 1"),
};

std::shared_ptr<const Transform> compose_one_of(const ParamValues& params,
                                                const std::vector<InnerStep>& inside,
                                                const DataSpec& before) {
  const auto read = resolve_params<OneOfParams>(kOneOfParams, params, "transform one_of");
  OneOfOptions options{.p = read.p};
  for (const InnerStep& step : inside) options.weights.push_back(step.weight);
  return one_of(sure_makers_of(inside), options)(before);
}

}  // namespace

extern constinit const TransformEntry one_of_entry{
    .name = "one_of",
    .help = "one_of(step:p=0.2|step:p=0.6): one of its steps for sure, their p are shares",
    .params = kOneOfParams,
    .make = nullptr,
    .compose = &compose_one_of,
};

}  // namespace muster::data
