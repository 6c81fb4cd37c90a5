// Which of a rank's bytes follow its batch, and which do not; see Note [Advice on memory].
#include <algorithm>
#include <set>

#include "muster/memory/guard/oom.h"
#include "muster/memory/report/explain.h"
#include "muster/tensor/device/device_memory.h"
#include "muster/tensor/unit_call.h"
#include "muster/train/loop/training.h"

namespace muster::train::detail {
namespace {

double sum_of(const memory::OomFacts& facts, std::initializer_list<memory::Owner> owners) {
  int64_t bytes = 0;
  for (const memory::Owner owner : owners) bytes += facts.owners[static_cast<size_t>(owner)];
  return static_cast<double>(bytes);
}

/// As the device counts them; 0 of a tensor without memory, as a weight in shards is between its uses.
double counted_bytes(c10::Device device, const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage() || tensor.storage().nbytes() == 0) return 0;
  return static_cast<double>(tensor::block_bytes(device, static_cast<int64_t>(tensor.nbytes())));
}

/// The same of one that has its memory.
double whole_bytes(c10::Device device, const at::Tensor& tensor) {
  return static_cast<double>(
      tensor::block_bytes(device, tensor.numel() * static_cast<int64_t>(tensor.element_size())));
}

/// Of weights that train, a gradient each.
struct Gradients {
  double all = 0, largest = 0;  // of weights that are on the device
  std::set<double> sizes;       // of all, and of units, whose gradients may lie in one tensor
};

Gradients gradients_of(torch::nn::Module& module, c10::Device device) {
  Gradients found;
  for (const at::Tensor& parameter : module.parameters()) {
    if (!parameter.requires_grad()) continue;
    found.sizes.insert(whole_bytes(device, parameter));
    if (parameter.device() != device) continue;
    const double bytes = counted_bytes(device, parameter);
    found.all += bytes;
    found.largest = std::max(found.largest, bytes);
  }
  for (const tensor::Unit& unit : tensor::units_of(module)) {
    int64_t bytes = 0;
    for (const at::Tensor& parameter : unit.parameters)
      bytes += parameter.numel() * static_cast<int64_t>(parameter.element_size());
    found.sizes.insert(static_cast<double>(tensor::block_bytes(device, bytes)));
  }
  return found;
}

}  // namespace

/// Of the optimizer's state for each byte of a gradient, what is on one rank.
double Trainer::state_share() const {
  const StrategyEntry& strategy = strategies().at(plan_.strategy_name);
  const bool is_divided = strategy.divides_model && strategy.ranks_per_replica == nullptr;
  return state_bytes_per_byte(plan_) / static_cast<double>(is_divided ? plan_.world_size : 1);
}

std::optional<MemoryNeeds> Trainer::memory_needs(const memory::OomFacts& facts) const {
  using memory::Owner;
  const auto missing = facts.missing();
  if (!missing || !facts.live || !facts.free) return std::nullopt;
  using In = MemoryFailure::In;
  // Of what is not on the device yet nobody has anything.
  const bool is_start = in_ == In::kWeights || in_ == In::kParts || in_ == In::kCut;
  if (!is_start && !facts.by_owner) return std::nullopt;
  MemoryNeeds needs{.room = static_cast<double>(*facts.live + facts.idle.value_or(0) + *facts.free),
                    .missing = static_cast<double>(*missing)};
  const double asked = static_cast<double>(tensor::block_bytes(device_, *facts.asked));
  const StrategyEntry& strategy = strategies().at(plan_.strategy_name);
  const Gradients gradients = gradients_of(*module_, device_);
  double held = sum_of(facts, {Owner::kGradient}) - static_cast<double>(facts.of_backward);
  const double state = sum_of(facts, {Owner::kOptimizerState});
  const double averages = ema_ ? static_cast<double>(ema_->bytes()) : 0;
  const bool has_whole = !strategy.divides_model || strategy.ranks_per_replica != nullptr;
  needs.weights = sum_of(facts, {Owner::kParameter, Owner::kBuffer}) + averages;
  double rest = static_cast<double>(*facts.live) - needs.weights - held - state;
  double buckets = gradients.all;  // which nobody else tells of
  bool makes_buckets = false;
  for (const auto& part : parts_) {
    const parallel::BucketMemory memory = part->strategy().bucket_memory();
    const auto once = static_cast<double>(memory.once);
    buckets += once * static_cast<double>(memory.sets - 1);
    needs.spare_buckets += once * static_cast<double>(memory.most_sets - 1);
    makes_buckets |= memory.is_making;
  }
  if (has_begun_) needs.inputs = bytes_of_batches();
  if (strategy.fills_buckets && plan_.world_size > 1 && !guard_) {
    // Made before a forward, they lie beside batches alone.
    const double most = makes_buckets ? rest - needs.inputs : rest;
    const double of_buckets = std::max(0.0, std::min(most, buckets - held));
    rest -= of_buckets;
    held = std::max(held, std::min(held + of_buckets, gradients.all));
  }
  needs.gradients = has_whole ? std::max(held, gradients.all) : held;
  needs.largest_gradient = std::max(gradients.largest, in_ == In::kWeights ? asked : 0);
  needs.state_is_held = state > 0;
  needs.state = state > 0 ? state : needs.gradients * state_share();
  const auto found = memory::out_of_memory_in(std::current_exception());
  // Where weights come and go, a unit's are asked for at any time.
  const bool may_be_weights = goes_back_ ||
                              (strategy.places_units && strategy.ranks_per_replica == nullptr) ||
                              (found && found->where.find("backward") != std::string::npos);
  needs.is_second_gradient =
      may_be_weights && gradients.sizes.contains(asked) && held >= gradients.all;
  needs.of_batch =
      std::max(0.0, rest) +
      (makes_buckets || (may_be_weights && gradients.sizes.contains(asked)) ? 0 : asked);
  return needs;
}

std::vector<UnitNeeds> Trainer::unit_needs() const {
  std::vector<UnitNeeds> all;
  const double share = state_share();
  for (const tensor::ChainedUnit& unit : tensor::chain_of(*module_)) {
    UnitNeeds& needs = all.emplace_back();
    const auto add = [&](const at::Tensor& tensor, bool trains) {
      const double bytes = whole_bytes(device_, tensor);
      needs.held += trains ? 2 * bytes : bytes;
      if (!trains) return;
      needs.state += share * bytes;
      needs.largest_gradient = std::max(needs.largest_gradient, bytes);
    };
    for (const auto& module : unit.modules) {
      for (const at::Tensor& tensor : module->parameters()) add(tensor, tensor.requires_grad());
      for (const at::Tensor& tensor : module->buffers()) add(tensor, false);
    }
    for (const auto& [name, tensor] : unit.parameters) add(tensor, tensor.requires_grad());
  }
  return all;
}

}  // namespace muster::train::detail
