// ResNet-50, torchvision's resnet50.
#include "muster/models/families/resnet.h"

namespace muster::models {
namespace {

std::shared_ptr<Classifier> make_resnet50(const ImageShape& shape, const ParamValues& params) {
  return make_resnet(shape, params, {.blocks = {3, 4, 6, 3}, .bottleneck = true}, "resnet50");
}

}  // namespace

extern constinit const ModelEntry resnet50_entry{"resnet50",
                                                 "ResNet-50 (2015), torchvision's layers and names",
                                                 1,
                                                 3,
                                                 kResnetParams,
                                                 &make_resnet50};

}  // namespace muster::models
