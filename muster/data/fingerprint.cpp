#include "muster/data/fingerprint.h"

#include <string>

#include "muster/base/text.h"
#include "muster/formats/crc32.h"

namespace muster::data {

uint32_t fingerprint_of(const at::Tensor& tensor, uint32_t before) {
  if (!tensor.defined()) return before;
  const at::Tensor rows = tensor.contiguous();
  const std::string kind = concat(c10::toString(rows.scalar_type()), rows.sizes());
  return formats::crc32_of({static_cast<const char*>(rows.const_data_ptr()), rows.nbytes()},
                           formats::crc32_of(kind, before));
}

}  // namespace muster::data
