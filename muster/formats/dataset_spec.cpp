#include "muster/formats/dataset_spec.h"

#include "muster/base/text.h"

namespace muster::formats {

Spec parse_dataset_spec(std::string_view text) {
  const size_t name = text.find(':');
  if (name == std::string_view::npos) return parse_spec(text);
  const std::string_view params = text.substr(name + 1);
  const std::string_view first = params.substr(0, params.find(','));
  if (trim(first).empty() || first.find('=') != std::string_view::npos) return parse_spec(text);
  return parse_spec(concat(text.substr(0, name + 1), "path=", params));
}

}  // namespace muster::formats
