#include "muster/formats/data_params.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::formats {
void refuse_data_param(std::string_view owner,
                       std::string_view name,
                       std::string rule,
                       std::string value) {
  throw usage_error({.refused = concat(owner, " parameter \"", name, '"'),
                     .rule = std::move(rule),
                     .value = std::move(value)});
}

void check_test_fraction(std::string_view owner, double share) {
  if (!(share > 0 && share < 1))
    refuse_data_param(owner, "test_fraction", "above 0, below 1", shortest(share));
}

void refuse_home_sign(std::string_view what, std::string_view scheme, const std::string& path) {
  if (!path.starts_with("~/")) return;
  throw usage_error({.refused = concat(what, ' ', path),
                     .rule = "a shell makes a path of ~ at the start of a word alone",
                     .hint = concat("write ", scheme, ":$HOME", path.substr(1))});
}

}  // namespace muster::formats
