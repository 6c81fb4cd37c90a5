// VGG-11, torchvision's vgg11 and vgg11_bn.
#include "muster/models/families/vgg.h"

namespace muster::models {
namespace {

// Configuration A of the paper; 0 is a pooling.
constexpr int64_t kVgg11Widths[] = {64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0};

std::shared_ptr<Classifier> make_vgg11(const ImageShape& shape, const ParamValues& params) {
  return make_vgg(shape, params, kVgg11Widths, "vgg11");
}

}  // namespace

extern constinit const ModelEntry vgg11_entry{
    "vgg11", "VGG-11 (2014), torchvision's layers and names", 32, 3, kVggParams, &make_vgg11};

}  // namespace muster::models
