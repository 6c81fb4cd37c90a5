// torchvision's RandomOrder.
#include "muster/data/transform/compose.h"

namespace muster::data {
namespace {

std::shared_ptr<const Transform> compose_random_order(const ParamValues& params,
                                                      const std::vector<InnerStep>& inside,
                                                      const DataSpec& before) {
  check_param_names({}, params, "transform random_order");
  return random_order(makers_of(inside))(before);
}

}  // namespace

extern constinit const TransformEntry random_order_entry{
    .name = "random_order",
    .help = "random_order(step|step): all of its steps, in another order in each epoch",
    .params = {},
    .make = nullptr,
    .compose = &compose_random_order,
};

}  // namespace muster::data
