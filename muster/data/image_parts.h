// Images of which no more is read than the first step of a chain looks at.
#pragma once

#include <cstdint>

#include "muster/data/dataset.h"
#include "muster/formats/image/image_part.h"

namespace muster::data {

/// What a dataset has whose images need not be decoded as a whole: see Dataset::image_parts(). Const,
/// any thread.
class ImageParts {
 public:
  virtual ~ImageParts() = default;

  /// The sample of that number, whose "data" is the part of its image that `choose` names, to the bit.
  /// The number is in range. Throws as samples(); damage that lies below the part may go unseen.
  virtual Sample read_part(int64_t index, const formats::ChooseRegion& choose) const = 0;
};

}  // namespace muster::data
