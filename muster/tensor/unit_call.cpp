#include "muster/tensor/unit_call.h"

#include <torch/nn/module.h>

#include "muster/base/error.h"

namespace muster::tensor {
namespace {

thread_local UnitCalls* innermost_calls = nullptr;

}  // namespace

std::vector<Unit> HasUnits::units() {
  std::vector<Unit> units;
  for (ChainedUnit& link : chain()) {
    Unit unit{.name = std::move(link.name)};
    for (const auto& module : link.modules) {
      for (at::Tensor& parameter : module->parameters())
        unit.parameters.push_back(std::move(parameter));
      for (at::Tensor& buffer : module->buffers()) unit.buffers.push_back(std::move(buffer));
    }
    for (const auto& [name, parameter] : link.parameters) unit.parameters.push_back(parameter);
    if (!unit.parameters.empty()) units.push_back(std::move(unit));
  }
  return units;
}

std::vector<Unit> units_of(torch::nn::Module& module) {
  auto* model = dynamic_cast<HasUnits*>(&module);
  return model != nullptr ? model->units() : std::vector<Unit>();
}

std::vector<ChainedUnit> chain_of(torch::nn::Module& module) {
  auto* model = dynamic_cast<HasUnits*>(&module);
  return model != nullptr ? model->chain() : std::vector<ChainedUnit>();
}

UnitCallScope::UnitCallScope(UnitCalls& calls) : calls_(calls) {
  for (const UnitCalls* outer = innermost_calls; outer != nullptr; outer = outer->outer_) {
    if (outer != &calls) continue;
    throw usage_error({.refused = "a scope of a model's units inside itself",
                       .rule = "one run of a model at a time decides how its units are called",
                       .hint = "let the inner forward end before the outer one begins"});
  }
  calls.outer_ = innermost_calls;
  innermost_calls = &calls;
}

UnitCallScope::~UnitCallScope() {
  innermost_calls = calls_.outer_;
  calls_.outer_ = nullptr;
}

UnitCalls* UnitCallScope::innermost() { return innermost_calls; }

}  // namespace muster::tensor
