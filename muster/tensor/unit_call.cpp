#include "muster/tensor/unit_call.h"

#include "muster/base/error.h"

namespace muster::tensor {
namespace {

thread_local UnitCalls* innermost_calls = nullptr;

}  // namespace

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
