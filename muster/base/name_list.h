// Parameters that are lists of names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/base/text.h"

namespace muster {

/// "a" or "[a,b]", without the blanks around each name, which may be empty.
inline std::vector<std::string> names_in(std::string_view text) {
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']')
    text = text.substr(1, text.size() - 2);
  std::vector<std::string> names;
  for (const std::string& name : split(text, ',')) names.emplace_back(trim(name));
  return names;
}

}  // namespace muster
