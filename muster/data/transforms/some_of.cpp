// albumentations' SomeOf.
#include "muster/data/transform/compose.h"

namespace muster::data {
namespace {

constexpr Param kSomeOfParams[] = {
    param<&SomeOfOptions::n>("n", "how many of them"),
    param<&SomeOfOptions::replace>("replace", "the same step may be taken again"),
    param<&SomeOfOptions::p>("p", "how likely it is that any are done, 0 to 1"),
};

std::shared_ptr<const Transform> compose_some_of(const ParamValues& params,
                                                 const std::vector<InnerStep>& inside,
                                                 const DataSpec& before) {
  const auto options = resolve_params<SomeOfOptions>(kSomeOfParams, params, "transform some_of");
  return some_of(makers_of(inside), options)(before);
}

}  // namespace

extern constinit const TransformEntry some_of_entry{
    .name = "some_of",
    .help = "some_of(step|step|step): n of its steps, in their order, each with its own p",
    .params = kSomeOfParams,
    .make = nullptr,
    .compose = &compose_some_of,
};

}  // namespace muster::data
