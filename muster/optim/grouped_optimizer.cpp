#include "muster/optim/grouped_optimizer.h"

#include <cmath>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::optim {
namespace {

constexpr std::string_view kWeightDecay = "weight_decay";

struct GroupOptimizer {
  std::unique_ptr<Optimizer> optimizer;
  double lr_factor;
};

class GroupedOptimizer final : public Optimizer {
 public:
  /// At least one group.
  GroupedOptimizer(tensor::NamedTensorList all, double lr, std::vector<GroupOptimizer> groups)
      : Optimizer(std::move(all), lr), groups_(std::move(groups)) {}

  void set_group_of(const std::string& parameter, size_t group) { group_of_[parameter] = group; }

  void step() override {
    for (const GroupOptimizer& group : groups_) {
      group.optimizer->set_lr(lr() * group.lr_factor);
      group.optimizer->step();
    }
  }

  std::optional<double> momentum() const override { return groups_[0].optimizer->momentum(); }
  void set_momentum(double momentum) override {
    for (const GroupOptimizer& group : groups_) group.optimizer->set_momentum(momentum);
  }

  tensor::NamedTensorList state() const override {
    tensor::NamedTensorList all;
    for (const GroupOptimizer& group : groups_) {
      tensor::NamedTensorList own = group.optimizer->state();
      std::move(own.begin(), own.end(), std::back_inserter(all));
    }
    return all;
  }

  void load_state(const tensor::TensorFile& file) override {
    std::vector<tensor::NamedTensorList> parts(groups_.size());
    for (const auto& [key, tensor] : file.tensors) {
      const auto found = group_of_.find(key.substr(key.find('/') + 1));
      // What is of no parameter is refused by the first group.
      parts[found == group_of_.end() ? 0 : found->second].emplace_back(key, tensor);
    }
    for (size_t i = 0; i < groups_.size(); ++i)
      groups_[i].optimizer->load_state({std::move(parts[i]), {}});
  }

 private:
  std::vector<GroupOptimizer> groups_;
  std::map<std::string, size_t, std::less<>> group_of_;
};

void check_group(const OptimizerEntry& entry, const OptimizerGroup& group) {
  if (!(group.lr_factor >= 0) || !std::isfinite(group.lr_factor)) {
    throw usage_error({.refused = "parameter group: lr_factor",
                       .rule = "it is not negative, and finite",
                       .value = shortest(group.lr_factor)});
  }
  if (!group.weight_decay) return;
  for (const Param& param : entry.params) {
    if (param.name == kWeightDecay) return;
  }
  throw usage_error({.refused = "a weight decay for some parameters",
                     .rule = concat("optimizer ", entry.name, " has no weight_decay")});
}

}  // namespace

std::unique_ptr<Optimizer> make_grouped(const OptimizerEntry& entry,
                                        std::vector<OptimizerGroup> groups,
                                        double lr,
                                        const ParamValues& params) {
  if (groups.empty()) groups.emplace_back();
  tensor::NamedTensorList all;
  std::vector<GroupOptimizer> made;
  for (const OptimizerGroup& group : groups) {
    check_group(entry, group);
    ParamValues own = params;
    if (group.weight_decay) own[std::string(kWeightDecay)] = shortest(*group.weight_decay);
    made.push_back({entry.make(group.parameters, lr * group.lr_factor, own), group.lr_factor});
    all.insert(all.end(), group.parameters.begin(), group.parameters.end());
  }
  auto grouped = std::make_unique<GroupedOptimizer>(std::move(all), lr, std::move(made));
  for (size_t i = 0; i < groups.size(); ++i) {
    for (const auto& [name, parameter] : groups[i].parameters) grouped->set_group_of(name, i);
  }
  return grouped;
}

}  // namespace muster::optim
