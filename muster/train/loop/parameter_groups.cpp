#include "muster/train/loop/parameter_groups.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include <fnmatch.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tensor/class_word.h"

namespace muster::train {
namespace {

const void* key_of(const at::Tensor& parameter) { return parameter.unsafeGetTensorImpl(); }

bool is_normalisation(const torch::nn::Module& layer) {
  std::string_view kind = tensor::class_word(layer.name());
  if (kind.ends_with("1d") || kind.ends_with("2d") || kind.ends_with("3d")) kind.remove_suffix(2);
  return kind.ends_with("Norm");
}

/// The parameters that a list of patterns is of.
class PatternSearch {
 public:
  PatternSearch(const torch::nn::Module& module, std::string flag, bool knows_norms)
      : parameters_(module.named_parameters()), flag_(std::move(flag)) {
    if (!knows_norms) return;
    for (const auto& layer : module.modules()) {
      if (!is_normalisation(*layer)) continue;
      for (const at::Tensor& parameter : layer->parameters(/*recurse=*/false))
        norms_.insert(key_of(parameter));
    }
  }

  std::vector<at::Tensor> find(const std::string& patterns) const {
    std::vector<at::Tensor> found;
    if (patterns.empty()) return found;
    for (const std::string& word : split(patterns, ',')) {
      const std::string pattern(trim(word));
      const size_t before = found.size();
      for (const auto& item : parameters_) {
        const bool is_norm = pattern == "norm" && norms_.contains(key_of(item.value()));
        if (!pattern.empty() && (is_norm || matches_name(pattern, item.key())))
          found.push_back(item.value());
      }
      if (found.size() == before) refuse(pattern);
    }
    return found;
  }

 private:
  [[noreturn]] void refuse(const std::string& pattern) const {
    constexpr size_t kShown = 8;
    std::vector<std::string> names;
    for (const auto& item : parameters_) {
      if (names.size() < kShown) names.push_back(item.key());
    }
    if (parameters_.size() > kShown) names.emplace_back("…");
    throw usage_error({.refused = flag_,
                       .rule = "each pattern is like a parameter of the module",
                       .value = pattern.empty() ? "\"\"" : pattern,
                       .hint = "its parameters are " + join(names, ", ")});
  }

  torch::OrderedDict<std::string, at::Tensor> parameters_;
  std::string flag_;
  std::unordered_set<const void*> norms_;
};

Error refused_group(const ParameterGroup& group, std::string rule, std::string value) {
  return usage_error({.refused = concat("parameter group \"", group.name, '"'),
                      .rule = std::move(rule),
                      .value = std::move(value)});
}

void check_numbers(const ParameterGroup& group) {
  if (!(group.lr_factor >= 0) || !std::isfinite(group.lr_factor))
    throw refused_group(
        group, "its lr_factor is not negative, and finite", shortest(group.lr_factor));
  const double decay = group.weight_decay.value_or(0);
  if (!(decay >= 0) || !std::isfinite(decay))
    throw refused_group(group, "its weight_decay is not negative, and finite", shortest(decay));
  if (group.parameters.empty()) throw refused_group(group, "it has parameters", "none");
}

/// "*=0.1,fc=1" in its order: the later ones hold.
std::vector<std::pair<std::string, double>> lr_factors(const std::string& text) {
  std::vector<std::pair<std::string, double>> factors;
  if (text.empty()) return factors;
  for (const std::string& word : split(text, ',')) {
    const size_t at = word.rfind('=');
    const auto factor = at == word.npos ? std::nullopt : to_double(trim(word.substr(at + 1)));
    if (!factor || !(*factor >= 0) || !std::isfinite(*factor) || at == 0) {
      throw usage_error({.refused = "--lr-factor",
                         .rule = "PATTERN=X, and X is not negative and finite",
                         .value = word.empty() ? "\"\"" : word});
    }
    factors.emplace_back(trim(word.substr(0, at)), *factor);
  }
  return factors;
}

/// "3 frozen parameters, 2 groups": of a record.
std::string text_of_counts(const Json& record) {
  if (record.is_null()) return "all parameters trained alike";
  const auto size = [&](const char* name) { return record.value(name, Json::array()).size(); };
  return concat(size("frozen"), " parameters frozen, ", size("rules"), " with rules of their own");
}

}  // namespace

bool matches_name(std::string_view pattern, const std::string& name) {
  if (pattern.find_first_of("*?[") == pattern.npos) return name.find(pattern) != name.npos;
  return ::fnmatch(std::string(pattern).c_str(), name.c_str(), 0) == 0;
}

ParameterGroups::ParameterGroups(Task& task, const FitOptions& options) : module_(task.module()) {
  take_groups(task);
  take_patterns(options);
  find_frozen_norms();
  make_record();
}

void ParameterGroups::check_alike(const distributed::ProcessGroup& group) const {
  if (group.world_size() == 1) return;
  const std::vector<std::string> all = group.all_gather_text(json_text(record_));
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw usage_error({.refused = "parameter groups",
                       .rule = "all ranks train the same parameters alike",
                       .value = concat("rank ", rank, " has others than rank 0")});
  }
}

void ParameterGroups::freeze(const at::Tensor& parameter) {
  frozen_.insert(key_of(parameter));
  parameter.set_requires_grad(false);
}

void ParameterGroups::take_groups(Task& task) {
  std::unordered_set<Key> known, taken;
  for (const at::Tensor& parameter : module_->parameters()) known.insert(key_of(parameter));
  for (const ParameterGroup& group : task.parameter_groups()) {
    check_numbers(group);
    for (const at::Tensor& parameter : group.parameters) {
      if (!parameter.defined() || !known.contains(key_of(parameter)))
        throw refused_group(group, "its parameters are the module's", "another tensor");
      if (!taken.insert(key_of(parameter)).second)
        throw refused_group(
            group, "a parameter is in one group, and once", concat("one of ", parameter.sizes()));
      if (group.frozen) {
        freeze(parameter);
      } else {
        rules_[key_of(parameter)] = {group.lr_factor, group.weight_decay};
      }
    }
  }
}

void ParameterGroups::take_patterns(const FitOptions& options) {
  const PatternSearch no_decay(*module_, "--no-decay", /*knows_norms=*/true);
  for (const at::Tensor& parameter : no_decay.find(options.no_decay))
    rules_[key_of(parameter)].weight_decay = 0;
  const PatternSearch factors(*module_, "--lr-factor", /*knows_norms=*/false);
  for (const auto& [pattern, factor] : lr_factors(options.lr_factor)) {
    for (const at::Tensor& parameter : factors.find(pattern))
      rules_[key_of(parameter)].lr_factor = factor;
  }
  by_flag_ = !options.freeze.empty();
  const PatternSearch frozen(*module_, "--freeze", /*knows_norms=*/false);
  for (const at::Tensor& parameter : frozen.find(options.freeze)) freeze(parameter);
}

/// See Note [Frozen normalisations].
void ParameterGroups::find_frozen_norms() {
  for (const auto& layer : module_->modules()) {
    const auto own = layer->parameters(/*recurse=*/false);
    const bool frozen = !own.empty() && std::all_of(own.begin(), own.end(), [&](const auto& p) {
      return frozen_.contains(key_of(p));
    });
    if (frozen && layer->named_buffers(/*recurse=*/false).contains("running_mean"))
      frozen_norms_.push_back(layer);
  }
}

void ParameterGroups::make_record() {
  Json frozen = Json::array(), rules = Json::array();
  for (const auto& item : module_->named_parameters()) {
    const Key key = key_of(item.value());
    const auto rule = rules_.find(key);
    if (frozen_.contains(key)) {
      frozen.push_back(item.key());
    } else if (rule != rules_.end()) {
      const std::optional<double>& decay = rule->second.weight_decay;
      rules.push_back({item.key(), rule->second.lr_factor, decay ? Json(*decay) : Json()});
    }
  }
  if (!frozen.empty() || !rules.empty()) record_ = {{"frozen", frozen}, {"rules", rules}};
}

ParameterRules ParameterGroups::rules_of(const torch::nn::Module& part,
                                         const std::string& part_name) const {
  ParameterRules rules;
  bool is_trained = frozen_.empty();
  for (const auto& item : part.named_parameters()) {
    const Key key = key_of(item.value());
    if (!frozen_.contains(key)) is_trained = true;
    if (const auto rule = rules_.find(key); rule != rules_.end()) rules[item.key()] = rule->second;
  }
  if (is_trained) return rules;
  throw usage_error({.refused = by_flag_ ? "--freeze" : "the task's parameter_groups()",
                     .rule = part_name.empty() ? "some parameters are left to train"
                                               : concat("some parameters of part ",
                                                        part_name,
                                                        " are left to "
                                                        "train"),
                     .value = "all are frozen"});
}

void ParameterGroups::train_mode() const {
  module_->train();
  for (const auto& layer : frozen_norms_) layer->eval();
}

void ParameterGroups::check_resume(const Json& recorded) const {
  if (recorded == record_) return;
  throw usage_error(
      {.refused = "--resume",
       .rule = "a run goes on with the parameter groups that it began with",
       .value = concat(text_of_counts(record_), "; before ", text_of_counts(recorded)),
       .hint = "begin a new run in another folder"});
}

std::string ParameterGroups::line() const {
  if (record_.is_null()) return "";
  std::map<ParameterRule, size_t> sizes;
  size_t frozen = 0, all = 0;
  for (const at::Tensor& parameter : module_->parameters()) {
    ++all;
    const auto rule = rules_.find(key_of(parameter));
    if (frozen_.contains(key_of(parameter))) {
      ++frozen;
    } else {
      ++sizes[rule == rules_.end() ? ParameterRule() : rule->second];
    }
  }
  std::vector<std::string> parts;
  if (frozen > 0) parts.push_back(concat(frozen, " frozen"));
  for (const auto& [rule, count] : sizes) {
    std::string text = concat(count, " trained");
    if (rule.lr_factor != 1) text += concat(" with ", shortest(rule.lr_factor), " of the rate");
    if (rule.weight_decay) text += concat(" with weight decay ", shortest(*rule.weight_decay));
    parts.push_back(std::move(text));
  }
  std::string out = concat("of ", all, " parameter tensors ", join(parts, ", "));
  if (!frozen_norms_.empty())
    out += frozen_norms_.size() == 1
               ? "; 1 frozen normalisation keeps its statistics"
               : concat("; ", frozen_norms_.size(), " frozen normalisations keep their statistics");
  return out;
}

}  // namespace muster::train
