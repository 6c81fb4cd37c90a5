#include "muster/base/json.h"

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster {

Json parse_json(std::string_view text, std::string_view where) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    throw usage_error({.refused = concat(where, " is not valid JSON"),
                       .rule = concat("fault at byte ", error.byte)});
  }
}

}  // namespace muster
