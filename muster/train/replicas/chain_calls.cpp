#include "muster/train/replicas/chain_calls.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include <c10/util/Exception.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tensor/device/generators.h"

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

Error computes_between_units(std::string value) {
  return not_as_the_chain_says("between its units it computes nothing", std::move(value));
}

/// While it lives a generator draws from a seed of its own.
class DrawsFrom {
 public:
  DrawsFrom(at::Generator generator, uint64_t seed) : before_(generator) {
    if (!generator.defined()) return;
    const std::lock_guard lock(generator.mutex());
    generator.set_current_seed(seed);
  }

 private:
  tensor::GeneratorAsItWas before_;
};

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
  Exit(const std::vector<std::string>& units, Tensors outputs, std::optional<DrawsFrom>& draws)
      : units_(units), outputs_(std::move(outputs)), draws_(draws) {}

  Tensors call(std::string_view unit, const UnitForward&, const Tensors& inputs) override {
    if (next_ == units_.size() || unit != units_[next_]) {
      throw not_as_the_chain_says(
          concat("its forward calls each of them once, in this order: ", join(units_, ", ")),
          concat(unit, " as call ", next_ + 1));
    }
    const auto is_defined = [](const at::Tensor& tensor) { return tensor.defined(); };
    if (next_ > 0 && std::ranges::any_of(inputs, is_defined))
      throw computes_between_units(concat(unit, " gets what no unit gave"));
    draws_.reset();
    return ++next_ == units_.size() ? std::move(outputs_) : Tensors(kMostBetween);
  }

  bool is_between() const { return next_ > 0 && next_ < units_.size(); }
  void check_end() const {
    if (next_ < units_.size())
      throw not_as_the_chain_says(concat("its forward calls ", units_[next_], ", too"), "");
  }

 private:
  // How many tensors a unit gives is known where it runs; here a forward finds as many as it takes.
  static constexpr size_t kMostBetween = 64;

  const std::vector<std::string>& units_;
  Tensors outputs_;
  std::optional<DrawsFrom>& draws_;
  size_t next_ = 0;
};

/// LibTorch's error of what is undefined there, also behind the words of a task's step (task_words.h).
void refuse_between_units(const std::exception& error) {
  if (const auto* torch = dynamic_cast<const c10::Error*>(&error); torch != nullptr)
    throw computes_between_units(torch->what_without_backtrace());
  try {
    std::rethrow_if_nested(error);
  } catch (const c10::Error& cause) {
    throw computes_between_units(cause.what_without_backtrace());
  } catch (...) {  // another one
  }
}

}  // namespace

Tensors ChainCalls::inputs_of(const Pass& pass, uint64_t seed) const {
  const DrawsFrom draws(generator_, seed);
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

StepResult ChainCalls::with_outputs(Tensors outputs, const Pass& pass, uint64_t seed) const {
  std::optional<DrawsFrom> draws;
  draws.emplace(generator_, seed);
  Exit exit(units_, std::move(outputs), draws);
  StepResult result = [&] {
    const tensor::UnitCallScope scope(exit);
    try {
      return pass();
    } catch (const std::exception& error) {
      if (!exit.is_between()) throw;
      refuse_between_units(error);
      throw;
    }
  }();
  exit.check_end();
  return result;
}

}  // namespace muster::train
