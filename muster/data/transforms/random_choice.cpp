// torchvision's RandomChoice.
#include "muster/data/transform/compose.h"

namespace muster::data {
namespace {

struct RandomChoiceOptions {
  std::vector<double> p;
};

constexpr Param kRandomChoiceParams[] = {
    param<&RandomChoiceOptions::p>("p", "how likely each is, [0.2,0.8], in shares; none: alike"),
};

std::shared_ptr<const Transform> compose_random_choice(const ParamValues& params,
                                                       const std::vector<InnerStep>& inside,
                                                       const DataSpec& before) {
  const auto options =
      resolve_params<RandomChoiceOptions>(kRandomChoiceParams, params, "transform random_choice");
  return random_choice(makers_of(inside), options.p)(before);
}

}  // namespace

extern constinit const TransformEntry random_choice_entry{
    .name = "random_choice",
    .help = "random_choice(step|step): one of its steps, another one in each epoch",
    .params = kRandomChoiceParams,
    .make = nullptr,
    .compose = &compose_random_choice,
};

}  // namespace muster::data
