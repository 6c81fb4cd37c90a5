#include "muster/train/replicas/chain_calls.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::train {
namespace {

using tensor::UnitForward;
using Tensors = std::vector<at::Tensor>;

Error not_as_the_chain_says(std::string rule, std::string value) {
  return usage_error({.refused = "a module that is a chain of units (tensor::HasUnits::chain)",
                      .rule = std::move(rule),
                      .value = std::move(value),
                      .hint = "let chain() be empty where the forward is another"});
}

/// Leaves the step: no error, and nobody between who catches errors should take it for one.
struct FirstUnitReached {};

class Entrance final : public tensor::UnitCalls {
 public:
  Tensors call(std::string_view unit, const UnitForward&, const Tensors& inputs) override {
    unit_ = unit;
    inputs_ = inputs;
    throw FirstUnitReached();
  }

  const std::string& unit() const { return unit_; }
  Tensors inputs() { return std::move(inputs_); }

 private:
  std::string unit_;
  Tensors inputs_;
};

class Exit final : public tensor::UnitCalls {
 public:
  Exit(const std::vector<std::string>& units, Tensors outputs)
      : units_(units), outputs_(std::move(outputs)) {}

  Tensors call(std::string_view unit, const UnitForward&, const Tensors& inputs) override {
    if (next_ == units_.size() || unit != units_[next_]) {
      throw not_as_the_chain_says(
          concat("its forward calls each of them once, in this order: ", join(units_, ", ")),
          concat(unit, " as call ", next_ + 1));
    }
    const auto same = [](const at::Tensor& a, const at::Tensor& b) { return a.is_same(b); };
    if (next_ > 0 && !std::ranges::equal(inputs, given_, same)) {
      throw not_as_the_chain_says("each unit takes what the one before gives",
                                  concat(unit, " gets another tensor"));
    }
    given_ = ++next_ == units_.size() ? std::move(outputs_) : inputs;
    return given_;
  }

  void check_end() const {
    if (next_ < units_.size())
      throw not_as_the_chain_says(concat("its forward calls ", units_[next_], ", too"), "");
  }

 private:
  const std::vector<std::string>& units_;
  Tensors outputs_;
  Tensors given_;  // by the unit before
  size_t next_ = 0;
};

}  // namespace

Tensors ChainCalls::inputs_of(const Pass& pass) const {
  Entrance entrance;
  try {
    const tensor::UnitCallScope scope(entrance);
    pass();
  } catch (const FirstUnitReached&) {
    if (entrance.unit() == units_.front()) return entrance.inputs();
  }
  throw not_as_the_chain_says(concat("its forward begins with ", units_.front()),
                              entrance.unit().empty() ? "it calls none" : entrance.unit());
}

StepResult ChainCalls::with_outputs(Tensors outputs, const Pass& pass) const {
  Exit exit(units_, std::move(outputs));
  StepResult result = [&] {
    const tensor::UnitCallScope scope(exit);
    return pass();
  }();
  exit.check_end();
  return result;
}

}  // namespace muster::train
