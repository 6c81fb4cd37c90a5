// Reads a snapshot file with LibTorch's own unpickler.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <torch/csrc/jit/serialization/pickle.h>

#include "muster/base/file.h"

namespace muster::test {

inline c10::IValue unpickled(const std::string& bytes) {
  return torch::jit::unpickle(bytes.data(), bytes.size());
}

inline c10::IValue field(const c10::IValue& dict, const std::string& name) {
  return dict.toGenericDict().at(name);
}

inline std::vector<c10::IValue> items(const c10::IValue& list) {
  const auto all = list.toList();
  std::vector<c10::IValue> out;
  for (size_t i = 0; i < all.size(); ++i) out.push_back(all.get(i));
  return out;
}

}  // namespace muster::test
