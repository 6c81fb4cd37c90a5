#include "muster/train/program/layer_summary.h"

#include <algorithm>
#include <string_view>
#include <typeinfo>
#include <unordered_set>

#include <c10/util/Type.h>
#include <torch/nn/module.h>

#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/tensor/class_word.h"
#include "muster/train/plan/fit_plan.h"

namespace muster::train {
namespace {

constexpr size_t kMostShown = 40;

/// Not by module.name(), which is whatever its constructor was given.
std::string type_of(const torch::nn::Module& module) {
  const std::string name = c10::demangle(typeid(module).name());
  return std::string(tensor::class_word(std::string_view(name).substr(0, name.find('<'))));
}

/// Adds the numbers in tensors that are not counted yet.
class Count {
 public:
  Count(int64_t& parameters, int64_t& trained) : parameters_(parameters), trained_(trained) {}

  void add(const at::Tensor& tensor) {
    if (!tensor.defined() || !counted_.insert(tensor.unsafeGetTensorImpl()).second) return;
    parameters_ += tensor.numel();
    if (tensor.requires_grad()) trained_ += tensor.numel();
  }
  void add_all(const torch::nn::Module& module) {
    for (const at::Tensor& tensor : module.parameters()) add(tensor);
  }

 private:
  int64_t& parameters_;
  int64_t& trained_;
  std::unordered_set<const c10::TensorImpl*> counted_;
};

/// "1,234,567".
std::string grouped(int64_t number) {
  std::string text = std::to_string(number);
  for (size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

std::string fate_of(int64_t parameters, int64_t trained) {
  if (trained == parameters) return "";
  return trained == 0 ? "frozen" : concat(grouped(trained), " trained");
}

}  // namespace

LayerSummary layer_summary(const torch::nn::Module& whole) {
  LayerSummary summary;
  Count(summary.parameters, summary.trained).add_all(whole);
  const torch::nn::Module* module = &whole;
  std::string prefix;
  while (module->named_parameters(/*recurse=*/false).is_empty()) {
    const auto children = module->named_children();
    if (children.size() != 1 || children[0].value()->children().empty()) break;
    prefix += children[0].key() + '.';
    module = children[0].value().get();
  }
  for (const auto& own : module->named_parameters(/*recurse=*/false)) {
    summary.layers.push_back({.name = prefix + own.key(), .type = "parameter"});
    LayerRow& row = summary.layers.back();
    Count(row.parameters, row.trained).add(own.value());
  }
  for (const auto& child : module->named_children()) {
    summary.layers.push_back({.name = prefix + child.key(), .type = type_of(*child.value())});
    LayerRow& row = summary.layers.back();
    Count(row.parameters, row.trained).add_all(*child.value());
  }
  return summary;
}

std::string explained_layers(const LayerSummary& summary) {
  const std::string fate = fate_of(summary.parameters, summary.trained);
  std::string out = explained_line(
      "parameters", concat(grouped(summary.parameters), fate.empty() ? "" : concat(", ", fate)));
  const size_t shown = std::min(summary.layers.size(), kMostShown);
  size_t names = 0, types = 0, numbers = 0;
  for (size_t i = 0; i < shown; ++i) {
    const LayerRow& row = summary.layers[i];
    names = std::max(names, row.name.size());
    types = std::max(types, row.type.size());
    numbers = std::max(numbers, grouped(row.parameters).size());
  }
  const auto blanks = [](size_t width, const std::string& text) {
    return std::string(width - text.size(), ' ');
  };
  for (size_t i = 0; i < shown; ++i) {
    const LayerRow& row = summary.layers[i];
    const std::string number = grouped(row.parameters),
                      row_fate = fate_of(row.parameters, row.trained);
    out += explained_line(i == 0 ? "layers" : "",
                          concat(row.name,
                                 blanks(names, row.name),
                                 "  ",
                                 row.type,
                                 blanks(types, row.type),
                                 "  ",
                                 blanks(numbers, number),
                                 number,
                                 row_fate.empty() ? "" : concat("  ", row_fate)));
  }
  if (shown < summary.layers.size())
    out += explained_line("", concat("and ", summary.layers.size() - shown, " more"));
  return out;
}

Json to_json(const LayerSummary& summary) {
  Json layers = Json::array();
  for (const LayerRow& row : summary.layers) {
    layers.push_back({{"name", row.name},
                      {"type", row.type},
                      {"parameters", row.parameters},
                      {"trained", row.trained}});
  }
  return {{"parameters", summary.parameters},
          {"trained_parameters", summary.trained},
          {"layers", std::move(layers)}};
}

}  // namespace muster::train
