#include "muster/formats/transform_chain.h"

#include <string>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::formats {

std::vector<Spec> parse_transform_chain(std::string_view text) {
  std::vector<Spec> steps;
  if (trim(text).empty()) return steps;
  for (const std::string& part : split(text, '|')) {
    Spec step = parse_spec(trim(part));
    step.name = trim(step.name);
    if (step.name.empty()) {
      throw usage_error({.refused = "chain of transforms",
                         .rule = "each step is name:key=value,…, with | between two",
                         .value = concat('"', text, '"')});
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace muster::formats
