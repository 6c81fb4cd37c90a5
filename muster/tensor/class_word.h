// What users call the class of a module.
#pragma once

#include <string_view>

namespace muster::tensor {

/// "BatchNorm2d" of "torch::nn::BatchNorm2dImpl".
inline std::string_view class_word(std::string_view name) {
  if (const size_t at = name.rfind(':'); at != name.npos) name.remove_prefix(at + 1);
  if (name.ends_with("Impl")) name.remove_suffix(4);
  return name;
}

}  // namespace muster::tensor
