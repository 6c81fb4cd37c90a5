// albumentations' Sequential.
#include "muster/data/transform/compose.h"

namespace muster::data {
namespace {

struct SequentialOptions {
  double p = 0.5;
};

constexpr Param kSequentialParams[] = {
    param<&SequentialOptions::p>("p", "how likely a sample goes through all of them; 1: surely"),
};

std::shared_ptr<const Transform> compose_sequential(const ParamValues& params,
                                                    const std::vector<InnerStep>& inside,
                                                    const DataSpec& before) {
  const auto options =
      resolve_params<SequentialOptions>(kSequentialParams, params, "transform sequential");
  return sequential(makers_of(inside), options.p)(before);
}

}  // namespace

extern constinit const TransformEntry sequential_entry{
    .name = "sequential",
    .help = "sequential(step|step): its steps as one, such as one_of takes",
    .params = kSequentialParams,
    .make = nullptr,
    .compose = &compose_sequential,
};

}  // namespace muster::data
