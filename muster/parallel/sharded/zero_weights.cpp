// ZeroCore: weights, apart from training.
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/parallel/sharded/zero_core.h"

namespace muster::parallel {

namespace {

std::string label_of(const ShardedParameters& part, size_t bucket, const ShardedUnits* units) {
  const std::string unit = units == nullptr ? "" : units->name(part.unit(bucket));
  if (!unit.empty()) return unit;
  // A bucket has the module's last parameter first.
  const std::string& first = part.parameters()[part.layout(bucket).parameters.back()].first;
  return first.substr(0, first.rfind('.'));
}

}  // namespace

NamedTensors ZeroCore::held_weights() const {
  NamedTensors all;
  for (const ShardedParameters* part : {&parameters_, frozen()}) {
    for (size_t b = 0; part != nullptr && b < part->buckets(); ++b)
      for (const at::Tensor& tensor : part->held(b))
        all.emplace_back(label_of(*part, b, units_.get()), tensor);
  }
  return all;
}

NamedTensors ZeroCore::held_gradients() const {
  NamedTensors all;
  for (size_t b = 0; gradients_ && b < parameters_.buckets(); ++b)
    for (const at::Tensor& tensor : gradients_->held(b))
      all.emplace_back(label_of(parameters_, b, units_.get()), tensor);
  return all;
}

NamedTensors ZeroCore::own_weights() {
  take_weights();
  if (units_) units_->take_held();
  NamedTensors own = parameters_.own_weights();
  if (frozen_) {
    for (auto& named : frozen_->own_weights()) own.push_back(std::move(named));
  }
  return own;
}

void ZeroCore::load_weights(const NamedTensors& weights) {
  take_weights();
  for (const auto& [name, whole] : weights) {
    if (frozen_ && frozen_->has(name)) {
      frozen_->load_weight(name, whole);
      continue;
    }
    if (!parameters_.has(name)) {
      std::vector<std::string> names;
      for (const auto& [own, piece] : parameters_.parameters()) names.push_back(own);
      if (frozen_)
        for (const auto& [own, piece] : frozen_->parameters()) names.push_back(own);
      throw usage_error({.refused = concat("weight ", name),
                         .rule = "a parameter of the module that is in shards has that name",
                         .hint = suggestion(name, names)});
    }
    parameters_.load_weight(name, whole);
  }
}

NamedTensors ZeroCore::gather_weights() {
  const std::string kind = "weight/";
  take_weights();
  if (units_) units_->take_held();
  NamedTensors out;
  for (const ShardedParameters* part : {&std::as_const(parameters_), frozen()}) {
    if (part == nullptr) continue;
    NamedTensors own;
    for (const auto& [name, piece] : part->own_weights()) own.emplace_back(kind + name, piece);
    for (auto& [name, tensor] : part->gather(own))
      out.emplace_back(name.substr(kind.size()), std::move(tensor));
  }
  return out;
}

}  // namespace muster::parallel
