#include "muster/models/weights.h"

#include <map>
#include <string_view>

#include <c10/core/GradMode.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tensor/dtype_name.h"

namespace muster::models {
namespace {

using Tensors = std::map<std::string, at::Tensor>;

Tensors tensors_of(const torch::nn::Module& model) {
  Tensors all;
  for (const auto& item : model.named_parameters()) all.emplace(item.key(), item.value());
  for (const auto& item : model.named_buffers()) {
    if (item.value().defined()) all.emplace(item.key(), item.value());
  }
  return all;
}

void check_tensor(const std::string& name,
                  const at::Tensor& own,
                  const at::Tensor& given,
                  bool is_of_head) {
  const auto describe = [](const at::Tensor& tensor) {
    return concat(tensor::dtype_name(tensor.scalar_type()), ' ', tensor.sizes());
  };
  const bool alike = given.defined() && own.sizes() == given.sizes() &&
                     own.is_floating_point() == given.is_floating_point();
  if (alike) return;
  throw usage_error(
      {.refused = "weights " + name,
       .rule = "the model has " + describe(own),
       .value = given.defined() ? describe(given) : "no tensor",
       .hint = is_of_head
                   ? "weights of other classes: load_weights_but_head() leaves the last layer out"
                   : "make the model with the classes and parameters that the weights were "
                     "saved from"});
}

/// A model of such weights gives no number, whatever it learns. Buffers may hold infinities: masks do.
void check_finite(const std::string& name, const at::Tensor& given, bool is_parameter) {
  if (!given.is_floating_point()) return;
  const bool has_nan = given.isnan().any().item<bool>();
  if (!has_nan && !(is_parameter && given.isinf().any().item<bool>())) return;
  throw usage_error({.refused = "weights " + name,
                     .rule = "their numbers are finite",
                     .value = has_nan ? "NaN among them" : "infinity among them",
                     .hint = "the run that saved them has diverged: take an older checkpoint"});
}

void refuse_unknown(const std::string& name, const Tensors& own) {
  std::vector<std::string> known;
  for (const auto& item : own) known.push_back(item.first);
  // What Python's wrappers put before each name.
  for (const std::string_view prefix : {"module.", "_orig_mod."}) {
    if (!name.starts_with(prefix) || !own.contains(name.substr(prefix.size()))) continue;
    const bool compiled = prefix != "module.";
    throw usage_error(
        {.refused = "weights " + name,
         .rule = concat("the names do not begin with \"", prefix, '"'),
         .hint = concat(compiled ? "torch.compile" : "DataParallel or DistributedDataParallel",
                        " put it there: save model.",
                        compiled ? "_orig_mod" : "module",
                        ".state_dict() in Python")});
  }
  const auto near = nearest(name, known);
  throw usage_error({.refused = "weights " + name,
                     .rule = "the model has no tensor of that name",
                     .hint = near ? concat("did you mean \"", *near, "\"?") : ""});
}

bool is_of(const std::string& layer, const std::string& name) {
  return name.starts_with(layer + '.');
}

/// "" for a model that has no such layer: nothing is of it.
std::string head_or_none(const torch::nn::Module& model) {
  const auto parameters = model.named_parameters();
  const std::string last = parameters.is_empty() ? "" : parameters.back().key();
  return last.find('.') == last.npos ? "" : last.substr(0, last.rfind('.'));
}

/// Those of `left_out`, a layer or empty, stay as they are.
void load_weights(torch::nn::Module& model,
                  const std::vector<std::pair<std::string, at::Tensor>>& weights,
                  const std::string& left_out) {
  const c10::NoGradGuard no_grad;
  const auto is_left_out = [&](const std::string& name) {
    return !left_out.empty() && is_of(left_out, name);
  };
  const std::string head = head_or_none(model);
  Tensors own = tensors_of(model);
  Tensors left = own;
  for (const auto& [name, given] : weights) {
    if (is_left_out(name)) continue;
    const auto found = own.find(name);
    if (found == own.end()) refuse_unknown(name, own);
    check_tensor(name, found->second, given, !head.empty() && is_of(head, name));
    check_finite(name, given, found->second.requires_grad());
    if (left.erase(name) == 0)
      throw usage_error({.refused = "weights " + name, .rule = "it is given twice"});
  }
  for (const auto& item : left) {
    if (item.first.ends_with("num_batches_tracked") || is_left_out(item.first)) continue;
    throw usage_error({.refused = "weights without " + item.first,
                       .rule = "every tensor of the model must be among them",
                       .value = concat(weights.size(), " tensors for ", own.size())});
  }
  for (const auto& [name, given] : weights) {
    if (!is_left_out(name)) own.at(name).copy_(given);
  }
}

}  // namespace

void load_weights(torch::nn::Module& model,
                  const std::vector<std::pair<std::string, at::Tensor>>& weights) {
  load_weights(model, weights, "");
}

std::string head_of(const torch::nn::Module& model) {
  std::string head = head_or_none(model);
  if (!head.empty()) return head;
  throw usage_error({.refused = "the head of the model",
                     .rule = "its last parameter is in a layer",
                     .value = model.parameters().empty() ? "no parameters" : "in none"});
}

void load_weights_but_head(torch::nn::Module& model,
                           const std::vector<std::pair<std::string, at::Tensor>>& weights) {
  load_weights(model, weights, head_of(model));
}

}  // namespace muster::models
