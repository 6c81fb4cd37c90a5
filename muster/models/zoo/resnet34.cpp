// ResNet-34, torchvision's resnet34.
#include "muster/models/families/resnet.h"

namespace muster::models {
namespace {

std::shared_ptr<Classifier> make_resnet34(const ImageShape& shape, const ParamValues& params) {
  return make_resnet(shape, params, {.blocks = {3, 4, 6, 3}, .bottleneck = false}, "resnet34");
}

}  // namespace

extern constinit const ModelEntry resnet34_entry{"resnet34",
                                                 "ResNet-34 (2015), torchvision's layers and names",
                                                 1,
                                                 3,
                                                 kResnetParams,
                                                 &make_resnet34};

}  // namespace muster::models
