// Which parameters of a task are trained, and how: --freeze, --no-decay, Task::parameter_groups.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <torch/nn/module.h>

#include "muster/base/json.h"
#include "muster/distributed/process_group.h"
#include "muster/train/plan/options.h"
#include "muster/train/replicas/parameter_rules.h"
#include "muster/train/task/task.h"

namespace muster::train {

/// Whether a parameter's name has `pattern` in it, or, where that has one of *?[, is like it as a
/// shell's pattern.
bool matches_name(std::string_view pattern, const std::string& name);

// Note [Frozen normalisations]
// A BatchNorm all of whose parameters are frozen stays in evaluation mode while the rest trains: it
// normalises with its running statistics and leaves them alone, so that a frozen part computes what
// it computed before (Keras does so; Lightning's BackboneFinetuning trains BatchNorms of the frozen
// part by default, and with train_bn=False normalises with the batch's statistics). Dropout in a
// frozen part goes on.

/// One rank's. Used by the rank's own thread.
class ParameterGroups {
 public:
  /// Freezes what is to be. Throws a usage error for a pattern that no parameter is like, and a group
  /// that makes no sense.
  ParameterGroups(Task& task, const FitOptions& options);

  /// Throws a usage error, alike on all ranks, if the ranks' groups differ. Collective.
  void check_alike(const distributed::ProcessGroup& group) const;

  /// Of the parameters of `part`, by their names there. Throws a usage error if none of them is
  /// left to train.
  ParameterRules rules_of(const torch::nn::Module& part, const std::string& part_name) const;

  /// Training mode, but for frozen normalisations.
  void train_mode() const;

  /// For the checkpoint; null where all parameters are trained alike.
  const Json& record() const { return record_; }
  /// Throws a usage error if the checkpoint's is another.
  void check_resume(const Json& recorded) const;

  /// "4 of 10 parameters frozen; …"; empty where all are trained alike.
  std::string line() const;

 private:
  using Key = const void*;  // of a parameter, whatever its names

  void freeze(const at::Tensor& parameter);
  void take_groups(Task& task);
  void take_patterns(const FitOptions& options);
  void find_frozen_norms();
  void make_record();

  std::shared_ptr<torch::nn::Module> module_;
  std::unordered_map<Key, ParameterRule> rules_;
  std::unordered_set<Key> frozen_;
  std::vector<std::shared_ptr<torch::nn::Module>> frozen_norms_;
  bool by_flag_ = false;  // --freeze has frozen some
  Json record_;
};

}  // namespace muster::train
