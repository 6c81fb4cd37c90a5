// ResNet-18, torchvision's resnet18.
#include "muster/models/families/resnet.h"

namespace muster::models {
namespace {

std::shared_ptr<Classifier> make_resnet18(const ImageShape& shape, const ParamValues& params) {
  return make_resnet(shape, params, {.blocks = {2, 2, 2, 2}, .bottleneck = false}, "resnet18");
}

}  // namespace

extern constinit const ModelEntry resnet18_entry{"resnet18",
                                                 "ResNet-18 (2015), torchvision's layers and names",
                                                 1,
                                                 3,
                                                 kResnetParams,
                                                 &make_resnet18};

}  // namespace muster::models
