// convert_sync_batchnorm: finds the BatchNorms of a module, and replaces those that can be.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/parallel/batch_norm/sync_batch_norm.h"

namespace muster::parallel {
namespace {

template <class BatchNormImpl>
std::shared_ptr<SyncBatchNormImpl> replacement_of(const BatchNormImpl& norm,
                                                  const distributed::ProcessGroup& group) {
  auto out = std::make_shared<SyncBatchNormImpl>(
      norm.options,
      group,
      BatchNormTensors{
          norm.weight, norm.bias, norm.running_mean, norm.running_var, norm.num_batches_tracked});
  out->train(norm.is_training());
  return out;
}

/// Null if `module` is no BatchNorm.
std::shared_ptr<SyncBatchNormImpl> replacement_of(const torch::nn::Module& module,
                                                  const distributed::ProcessGroup& group) {
  if (const auto* norm = module.as<torch::nn::BatchNorm1dImpl>())
    return replacement_of(*norm, group);
  if (const auto* norm = module.as<torch::nn::BatchNorm2dImpl>())
    return replacement_of(*norm, group);
  if (const auto* norm = module.as<torch::nn::BatchNorm3dImpl>())
    return replacement_of(*norm, group);
  return nullptr;
}

bool is_batch_norm(const torch::nn::Module& module) {
  return module.as<torch::nn::BatchNorm1dImpl>() != nullptr ||
         module.as<torch::nn::BatchNorm2dImpl>() != nullptr ||
         module.as<torch::nn::BatchNorm3dImpl>() != nullptr;
}

/// The element of a Sequential that runs the child; null if there is none.
torch::nn::AnyModule* element_of(torch::nn::Module& parent, const torch::nn::Module& child) {
  auto* sequential = parent.as<torch::nn::SequentialImpl>();
  if (sequential == nullptr) return nullptr;
  for (torch::nn::AnyModule& element : *sequential) {
    if (element.ptr().get() == &child) return &element;
  }
  return nullptr;
}

using Visit = std::function<void(
    torch::nn::Module& parent, const std::string& name, const std::string& path)>;

/// Every BatchNorm below `module`, with the module that it is registered in.
void visit_batch_norms(torch::nn::Module& module, const std::string& path, const Visit& visit) {
  for (const auto& child : module.named_children()) {
    const std::string below = path.empty() ? child.key() : concat(path, ".", child.key());
    if (is_batch_norm(*child.value())) {
      visit(module, child.key(), below);
    } else {
      visit_batch_norms(*child.value(), below, visit);
    }
  }
}

}  // namespace

void convert_sync_batchnorm(torch::nn::Module& module, const distributed::ProcessGroup& group) {
  std::vector<std::string> stuck;
  if (is_batch_norm(module)) stuck.emplace_back("the module itself");
  visit_batch_norms(module, "", [&](auto& parent, const auto& name, const auto& path) {
    if (element_of(parent, *parent.named_children()[name]) == nullptr) stuck.push_back(path);
  });
  if (!stuck.empty()) {
    throw usage_error({.refused = concat("convert_sync_batchnorm: ", join(stuck, ", ")),
                       .rule = "only a BatchNorm that a Sequential holds can be replaced: other "
                               "modules call theirs through members of that type",
                       .hint = "declare it as muster::parallel::SyncBatchNorm; without a group it "
                               "is a BatchNorm"});
  }
  visit_batch_norms(module, "", [&](auto& parent, const auto& name, const auto&) {
    const auto old = parent.named_children()[name];
    const auto norm = replacement_of(*old, group);
    *element_of(parent, *old) = torch::nn::AnyModule(norm);
    parent.replace_module(name, norm);
  });
  for (const auto& each : module.modules()) {
    if (auto* norm = each->as<SyncBatchNormImpl>()) norm->set_group(group);
  }
}

}  // namespace muster::parallel
