#include "muster/parallel/module/module_tree.h"

#include <torch/nn/module.h>

namespace muster::parallel {
namespace {

using Modules = std::vector<std::shared_ptr<torch::nn::Module>>;

void append(const torch::nn::Module& module, Modules& all) {
  for (auto& child : module.children()) {
    all.push_back(child);
    append(*child, all);
  }
}

/// Walks as append() did; `next` is the place in `all`. False at the first other module.
bool matches(const torch::nn::Module& module, const Modules& all, size_t& next) {
  for (const auto& child : module.children()) {
    if (next == all.size() || all[next] != child) return false;
    ++next;
    if (!matches(*child, all, next)) return false;
  }
  return true;
}

}  // namespace

ModuleTree::ModuleTree(const torch::nn::Module& root) { append(root, modules_); }

bool ModuleTree::holds(const torch::nn::Module& root) const {
  size_t next = 0;
  return matches(root, modules_, next) && next == modules_.size();
}

}  // namespace muster::parallel
