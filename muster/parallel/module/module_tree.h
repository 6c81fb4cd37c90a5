// Notices that a module got other submodules.
#pragma once

#include <memory>
#include <vector>

namespace torch::nn {
class Module;
}

namespace muster::parallel {

/// The submodules of a module as they were. One thread.
class ModuleTree {
 public:
  explicit ModuleTree(const torch::nn::Module& root);

  /// About 20 ns per submodule: parameters(), which makes all names, costs 40 times as much.
  bool holds(const torch::nn::Module& root) const;

 private:
  std::vector<std::shared_ptr<torch::nn::Module>> modules_;  // depth first; kept alive, so that no
                                                             // other one gets the address of one
};

}  // namespace muster::parallel
