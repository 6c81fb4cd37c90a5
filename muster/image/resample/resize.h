// Images in another size.
#pragma once

#include "muster/image/pixels.h"
#include "muster/image/resample/taps.h"

namespace muster::image {

/// Fills `out` with `in` in out's height and width: the bytes of `reference`, on any processor.
/// `in` is planar or interleaved, `out` planar and elsewhere in memory; both have the same channels
/// and at least one pixel. Throws a usage error for others. kNearest is Pillow's for both references.
/// Allocates what it needs in between, about in.height * out.width * channels bytes.
void resize(const Pixels& in, const MutablePixels& out, Filter filter, Reference reference);
/// With these loops. For tests.
void resize(const Pixels& in,
            const MutablePixels& out,
            Filter filter,
            Reference reference,
            const Kernels& loops);

/// What an image of `height` x `width` becomes when its shorter side is `size` long: the longer one
/// is cut off to a whole number; with `max_size` above 0 it is at most that long. `size` 0: the longer
/// one is max_size. Source: torchvision.transforms.v2.Resize.
struct Size {
  int64_t height = 0;
  int64_t width = 0;
};
Size resized_size(const Size& image, int64_t size, int64_t max_size);

}  // namespace muster::image
