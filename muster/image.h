// muster::image: 8-bit images resized, cut, flipped and recoloured, with torchvision's and Pillow's
// bytes; without LibTorch.
// The room's door for users; within muster/, include what is needed.
#pragma once

#include "muster/image/color/color.h"
#include "muster/image/geometry/place.h"
#include "muster/image/pixels.h"
#include "muster/image/resample/resize.h"
