#include "muster/formats/learned.h"

#include "muster/base/error.h"

namespace muster::formats {

void refuse_learned(std::string_view what, const std::string& why) {
  throw environment_error(
      {.refused = std::string(what), .rule = "it is as a training keeps it", .value = why});
}

}  // namespace muster::formats
