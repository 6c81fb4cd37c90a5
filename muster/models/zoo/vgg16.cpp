// VGG-16, torchvision's vgg16 and vgg16_bn.
#include "muster/models/families/vgg.h"

namespace muster::models {
namespace {

// Configuration D of the paper; 0 is a pooling.
constexpr int64_t kVgg16Widths[] = {
    64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0};

std::shared_ptr<Classifier> make_vgg16(const ImageShape& shape, const ParamValues& params) {
  return make_vgg(shape, params, kVgg16Widths, "vgg16");
}

}  // namespace

extern constinit const ModelEntry vgg16_entry{
    "vgg16", "VGG-16 (2014), torchvision's layers and names", 32, 3, kVggParams, &make_vgg16};

}  // namespace muster::models
