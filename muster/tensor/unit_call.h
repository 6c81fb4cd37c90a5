// A model calls its units by name, so that somebody outside may decide how they run.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace torch::nn {
class Module;
}

namespace muster::tensor {

// Note [Units]
// Weights in shards have to be gathered before a layer runs, and activations that are computed
// again need a function to be called again. Python does both behind forward hooks and a replaced
// forward(). A C++ module calls its members by their types, and nobody can step between. So a model
// whose units (the layers of an encoder, the blocks of a ResNet) are to be treated one by one says
// where they are:
//
//     for (auto& layer : layers_) x = tensor::call_unit("layers." + ..., layer, x);
//
// Without a scope that is layer->forward(x) and a look at a thread-local pointer. With one, its
// UnitCalls are asked. Scopes are the thread's and nest: the innermost one is asked first and hands
// on to the one outside of it, the last of which calls the unit.

/// A unit of a model, and what it uses.
struct Unit {
  std::string name;
  std::vector<at::Tensor> parameters = {};
  std::vector<at::Tensor> buffers = {};  ///< running statistics: what its forward writes to
};

/// What a unit makes of the tensors that come in. It may be called again, in another thread.
using UnitForward = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

/// A unit that can be called by itself. See HasUnits::chain().
struct ChainedUnit {
  std::string name;
  /// Whose parameters and buffers it uses.
  std::vector<std::shared_ptr<torch::nn::Module>> modules = {};
  /// The model's own parameters that it uses beside those, by name.
  std::vector<std::pair<std::string, at::Tensor>> parameters = {};
  UnitForward forward;
};

/// A module that knows its units, in the order in which it calls them: a base beside
/// torch::nn::Module, for whoever treats modules of any type.
class HasUnits {
 public:
  virtual ~HasUnits() = default;
  /// Those that have parameters; as it is written here, those of chain().
  virtual std::vector<Unit> units();
  /// Of a model that is a row of units, each of which takes what the one before gives and nothing
  /// else: all of them, also those without parameters; it may be cut between any two. Before the
  /// first unit and behind the last one its forward may compute, between them it may not. Empty: it
  /// is no such row.
  virtual std::vector<ChainedUnit> chain() { return {}; }
};

/// What the module says of itself; nothing where it is no HasUnits.
std::vector<Unit> units_of(torch::nn::Module& module);
std::vector<ChainedUnit> chain_of(torch::nn::Module& module);

/// A module, by its holder or shared pointer, as a unit that takes and gives a tensor, or a list.
template <class Module>
ChainedUnit chained_unit(std::string name, Module module) {
  ChainedUnit unit{.name = std::move(name), .modules = {}, .parameters = {}, .forward = {}};
  if constexpr (requires { module.ptr(); }) {
    unit.modules = {module.ptr()};
  } else {
    unit.modules = {module};
  }
  unit.forward = [module](const std::vector<at::Tensor>& inputs) mutable {
    if constexpr (requires { module->forward(inputs[0]); }) {
      return std::vector<at::Tensor>{module->forward(inputs.at(0))};
    } else {
      return module->forward(inputs);
    }
  };
  return unit;
}

/// Decides how units run. One thread at a time has it in a scope.
class UnitCalls {
 public:
  virtual ~UnitCalls() = default;

  /// forward(inputs), or the same numbers in another way. `unit` is its name in the model.
  virtual std::vector<at::Tensor> call(std::string_view unit,
                                       const UnitForward& forward,
                                       const std::vector<at::Tensor>& inputs) = 0;

 protected:
  /// As the scope outside would run it.
  std::vector<at::Tensor> hand_on(std::string_view unit,
                                  const UnitForward& forward,
                                  const std::vector<at::Tensor>& inputs) const {
    return outer_ == nullptr ? forward(inputs) : outer_->call(unit, forward, inputs);
  }

 private:
  friend class UnitCallScope;
  UnitCalls* outer_ = nullptr;
};

/// While it lives, units of this thread are called by `calls`, which outlive it. Scopes end in the
/// reverse order of their beginning. Throws a usage error if `calls` are in a scope already.
class UnitCallScope {
 public:
  explicit UnitCallScope(UnitCalls& calls);
  ~UnitCallScope();
  UnitCallScope(const UnitCallScope&) = delete;
  UnitCallScope& operator=(const UnitCallScope&) = delete;

  /// Of the thread's innermost scope; null outside.
  static UnitCalls* innermost();

 private:
  UnitCalls& calls_;
};

namespace detail {

template <class Callee, class Input>
auto run_unit(Callee& callee, const Input& input) {
  if constexpr (requires { callee->forward(input); }) {
    return callee->forward(input);
  } else {
    return callee(input);
  }
}

}  // namespace detail

/// The forward of a unit of a model: `forward` is a module, by its holder or shared pointer, or
/// anything that can be called with a tensor. It is copied where somebody may call it again.
template <class Forward>
at::Tensor call_unit(std::string_view unit, Forward& forward, const at::Tensor& input) {
  UnitCalls* calls = UnitCallScope::innermost();
  if (calls == nullptr) return detail::run_unit(forward, input);
  const auto call =
      [callee = std::decay_t<Forward>(forward)](const std::vector<at::Tensor>& inputs) mutable {
        return std::vector<at::Tensor>{detail::run_unit(callee, inputs[0])};
      };
  return calls->call(unit, call, {input})[0];
}

/// The same of one that takes and gives a list of tensors.
template <class Forward>
std::vector<at::Tensor> call_unit(std::string_view unit,
                                  Forward& forward,
                                  const std::vector<at::Tensor>& inputs) {
  UnitCalls* calls = UnitCallScope::innermost();
  if (calls == nullptr) return detail::run_unit(forward, inputs);
  const auto call =
      [callee = std::decay_t<Forward>(forward)](const std::vector<at::Tensor>& list) mutable {
        return detail::run_unit(callee, list);
      };
  return calls->call(unit, call, inputs);
}

}  // namespace muster::tensor
