// Where kernels for the meta device are registered; private to this area.
#pragma once

#include <string>
#include <utility>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace muster::memory {

/// Of aten's operators: those that this LibTorch has, and has no kernel for the meta device for.
class MetaLibrary {
 public:
  template <class Function>
  void add(const char* name, Function* function) {
    if (is_wanted(name)) library_.impl(name, function);
  }
  void add_boxed(const char* name, torch::CppFunction function) {
    if (is_wanted(name)) library_.impl(name, std::move(function));
  }
  /// One that is made of others, whose gradients are theirs.
  template <class Function>
  void add_with_gradients(const char* name, Function* function) {
    if (is_wanted(name)) composed_.impl(name, function);
  }

 private:
  static bool is_wanted(const std::string& name) {
    const size_t dot = name.find('.');
    const auto op = c10::Dispatcher::singleton().findSchema(
        {"aten::" + name.substr(0, dot), dot == std::string::npos ? "" : name.substr(dot + 1)});
    return op && !op->hasKernelForDispatchKey(c10::DispatchKey::Meta);
  }

  torch::Library library_{torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__};
  torch::Library composed_{
      torch::Library::IMPL, "aten", c10::DispatchKey::AutogradMeta, __FILE__, __LINE__};
};

/// What each source of kernels adds.
void add_meta_layers(MetaLibrary& library);
void add_meta_shapes(MetaLibrary& library);
void add_meta_recurrent(MetaLibrary& library);

}  // namespace muster::memory
