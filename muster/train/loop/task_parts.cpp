#include "muster/train/loop/task_parts.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include "muster/base/counted.h"
#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/data/samplers/exact_cover.h"
#include "muster/data/sets/subset_dataset.h"
#include "muster/tensor/dtype_name.h"
#include "muster/train/device/rank_device.h"

namespace muster::train {
namespace {

// Columns of metrics.csv that are the loop's own.
constexpr std::array<std::string_view, 9> kOwnNames = {"step",
                                                       "epoch",
                                                       "phase",
                                                       "loss",
                                                       "lr",
                                                       "samples_per_s",
                                                       "elapsed_s",
                                                       "gradient_norm",
                                                       "epoch_s"};

bool is_metric_name(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !name.empty() && std::all_of(name.begin(), name.end(), fits) &&
         std::find(kOwnNames.begin(), kOwnNames.end(), name) == kOwnNames.end();
}

/// What a formula takes are metrics that steps report.
void check_formula(const std::string& owner,
                   const Metric& metric,
                   const std::vector<Metric>& metrics) {
  const bool has_formula = metric.formula != nullptr;
  for (const std::string& name : metric.of) {
    const bool is_reported = std::any_of(metrics.begin(), metrics.end(), [&](const Metric& other) {
      return other.name == name && other.formula == nullptr;
    });
    if (has_formula && is_reported) continue;
    throw usage_error({.refused = concat(owner, ": metric \"", metric.name, '"'),
                       .rule = has_formula ? "it is made of metrics that steps report"
                                           : "what is made of others has a formula",
                       .value = name});
  }
}

void check_metrics(const std::string& owner, const std::vector<Metric>& metrics) {
  for (const Metric& metric : metrics) check_formula(owner, metric, metrics);
  std::vector<std::string_view> seen;
  for (const Metric& metric : metrics) {
    const bool is_twice = std::find(seen.begin(), seen.end(), metric.name) != seen.end();
    if (is_metric_name(metric.name) && !is_twice) {
      seen.push_back(metric.name);
      continue;
    }
    throw usage_error(
        {.refused = concat(owner, ": metric \"", metric.name, '"'),
         .rule = is_twice ? "each name is there once"
                          : "letters, digits and _, and no column of the loop's own (" +
                                join(std::vector<std::string>(kOwnNames.begin(), kOwnNames.end()),
                                     ", ") +
                                ")"});
  }
}

using Key = const c10::TensorImpl*;  // of a parameter

void check_names(const std::string& owner, const std::vector<TaskPart>& parts) {
  std::vector<std::string> seen;
  for (const TaskPart& part : parts) {
    const bool fits = !part.name.empty() && part.name.find('/') == std::string::npos &&
                      std::find(seen.begin(), seen.end(), part.name) == seen.end();
    if (!fits || part.module == nullptr) {
      throw usage_error(
          {.refused = concat(owner, ": part \"", part.name, '"'),
           .rule = fits ? "it has a module" : "a name without /, and each name is there once"});
    }
    seen.push_back(part.name);
  }
}

/// A part that is not of the module, or shares a parameter with another one, would train nothing, or one
/// of them nothing, and no step would fail.
void check_parts(const std::string& owner,
                 const torch::nn::Module& module,
                 const std::vector<TaskPart>& parts) {
  check_names(owner, parts);
  std::map<Key, std::string> names;
  for (const auto& item : module.named_parameters())
    names.emplace(item.value().unsafeGetTensorImpl(), item.key());
  std::map<Key, std::string> taken;  // by which part
  for (const TaskPart& part : parts) {
    const auto refused = [&](std::string rule, std::string value) {
      return usage_error({.refused = concat(owner, ": part \"", part.name, '"'),
                          .rule = std::move(rule),
                          .value = std::move(value)});
    };
    const auto own = part.module->named_parameters();
    if (own.is_empty()) throw refused("it has parameters", "none");
    for (const auto& item : own) {
      const Key key = item.value().unsafeGetTensorImpl();
      const auto known = names.find(key);
      if (known == names.end())
        throw refused("its parameters are those of the task's module", "its own " + item.key());
      const auto [other, is_new] = taken.emplace(key, part.name);
      if (!is_new && other->second != part.name)  // which may have it under two names
        throw refused("a parameter is in one part",
                      concat(known->second, " is in \"", other->second, "\" too"));
    }
  }
}

/// What must be alike on all ranks, in words.
std::string described(Task& task) {
  std::vector<std::string> metrics, parts;
  for (const Metric& metric : task.metrics())
    metrics.push_back(concat(metric.name, " (", name_of(metric.reduce), ")"));
  for (const TaskPart& part : task.parts()) parts.push_back(part.name);
  return concat("task ",
                task.name(),
                " with metrics [",
                join(metrics, ", "),
                "], parts [",
                join(parts, ", "),
                "]",
                task.has_own_weights() ? ", weights of its own" : "");
}

}  // namespace

std::shared_ptr<const data::Dataset> first_batches(
    const std::shared_ptr<const data::Dataset>& split, const FitPlan& plan, int64_t batches) {
  if (!split) return split;
  const int64_t samples = limited_samples(split->size(), batches, plan.options.batch_size);
  if (samples == split->size()) return split;
  return std::make_shared<data::SubsetDataset>(split, 0, samples);
}

std::unique_ptr<data::Loader> make_loader(const FitPlan& plan,
                                          const std::shared_ptr<const data::Dataset>& train,
                                          const distributed::ProcessGroup& group) {
  const auto seed = static_cast<uint64_t>(plan.options.seed);
  const data::EpochShare share{
      .world_size = group.world_size() / static_cast<int>(plan.ranks_per_replica),
      .rank = group.rank() / static_cast<int>(plan.ranks_per_replica),
      .seed = seed,
      .shuffle = plan.options.overfit_batches == 0};
  std::shared_ptr<const data::Sampler> sampler = train->own_sampler(share);
  if (!sampler) {
    sampler = std::make_shared<data::ExactCoverSampler>(
        plan.train_samples,
        data::ExactCoverSamplerOptions{.world_size = share.world_size,
                                       .rank = share.rank,
                                       .seed = seed,
                                       .shuffle = share.shuffle});
  }
  return std::make_unique<data::Loader>(
      train,
      data::LoaderOptions{.batch_size = plan.batch_per_rank,
                          .workers = plan.options.workers,
                          .seed = seed,
                          .device = device_of_rank(plan, group.rank()),
                          .timeout_s = plan.options.loader_timeout},
      std::move(sampler));
}

std::unique_ptr<Task> make_seeded(const TaskMaker& make, int64_t seed, Seeds seeds) {
  // Torch's default generator is one per process: ranks that are threads seed it and draw one after
  // the other.
  static std::mutex generator_in_use;
  const std::lock_guard lock(generator_in_use);
  if (seeds == Seeds::kOfAllDevices) {
    at::manual_seed(static_cast<uint64_t>(seed));
  } else {
    at::Generator cpu = at::detail::getDefaultCPUGenerator();
    const std::lock_guard drawing(cpu.mutex());
    cpu.set_current_seed(static_cast<uint64_t>(seed));
  }
  std::unique_ptr<Task> task = make ? make() : nullptr;
  if (task == nullptr || task->module() == nullptr) {
    throw usage_error({.refused = "fit()",
                       .rule = task == nullptr ? "the maker returns a task"
                                               : concat("task ", task->name(), " has a module")});
  }
  return task;
}

void check_task_alone(Task& task) {
  const std::string owner = concat("task ", task.name());
  check_metrics(owner, task.metrics());
  const std::shared_ptr<torch::nn::Module> module = task.module();
  if (task.module() != module)
    throw usage_error({.refused = owner,
                       .rule = "module() gives the same object each time",
                       .hint = "make it once, in the task's constructor"});
  check_parts(owner, *module, task.parts());
}

std::string line_of_untrained(Task& task) {
  const std::vector<TaskPart> parts = task.parts();
  if (parts.empty()) return "";
  std::set<Key> taken;
  for (const TaskPart& part : parts)
    for (const at::Tensor& parameter : part.module->parameters())
      taken.insert(parameter.unsafeGetTensorImpl());
  constexpr size_t kShown = 4;
  std::vector<std::string> names;
  size_t rest = 0;
  for (const auto& item : task.module()->named_parameters()) {
    if (!item.value().requires_grad() || taken.contains(item.value().unsafeGetTensorImpl()))
      continue;
    if (++rest <= kShown) names.push_back(item.key());
  }
  if (rest == 0) return "";
  if (rest > kShown) names.emplace_back("…");
  return concat("in no part, and so not trained: ",
                counted(rest, "parameter tensor"),
                " (",
                join(names, ", "),
                ")");
}

void check_task_on_ranks(Task& task, const distributed::ProcessGroup& group) {
  check_task_alone(task);
  if (group.world_size() == 1) return;
  const std::vector<std::string> all = group.all_gather_text(described(task));
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw usage_error({.refused = "fit()",
                       .rule = "all ranks train the same task",
                       .value = concat("rank 0: ", all[0], "; rank ", rank, ": ", all[rank])});
  }
}

void check_batches_on_ranks(const data::Dataset& train, const distributed::ProcessGroup& group) {
  if (group.world_size() == 1) return;
  const data::DataSpec spec = train.spec();
  // Of samples that may be of any length each rank may have read others.
  const bool is_one_size = !spec.is_tokens() && !spec.sample_shape.empty() && spec.has_size();
  std::vector<std::string> tensors;
  for (const auto& [name, tensor] : stand_in_batch(train).tensors) {
    const bool has_size = is_one_size && name == "data";
    tensors.push_back(concat(
        name,
        ' ',
        tensor::dtype_name(tensor.scalar_type()),
        has_size ? concat(' ', tensor.sizes()) : concat(" of ", tensor.dim(), " dimensions")));
  }
  const std::vector<std::string> all = group.all_gather_text(join(tensors, ", "));
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw usage_error({.refused = "fit()",
                       .rule = "the batches of all ranks have the same tensors",
                       .value = concat("rank 0: ", all[0], "; rank ", rank, ": ", all[rank])});
  }
}

void check_task(const Task& task, const Checkpoint& checkpoint) {
  const auto name = checkpoint.loop.find("task_name");
  if (name == checkpoint.loop.end() || *name == task.name()) return;  // older ones have none
  throw usage_error({.refused = "--resume",
                     .rule = concat("the checkpoint is of the task that goes on, ", task.name()),
                     .value = name->is_string() ? name->get<std::string>() : json_text(*name),
                     .hint = "begin a new run in another folder"});
}

data::Batch stand_in_batch(const data::Dataset& dataset) {
  const std::array<int64_t, 2> indices = {0, dataset.size() > 1 ? 1 : 0};
  return dataset.get(indices);
}

}  // namespace muster::train
