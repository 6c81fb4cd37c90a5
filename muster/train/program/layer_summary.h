// What a task's module is made of, layer by layer: Lightning's ModelSummary, for --explain.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/json_fwd.h"

namespace torch::nn {
class Module;
}

namespace muster::train {

struct LayerRow {
  std::string name;        ///< within the module: "layer1", "net.0"
  std::string type;        ///< of its class: "Conv2d"; "parameter" of a tensor that is in no layer
  int64_t parameters = 0;  ///< numbers in it and below
  int64_t trained = 0;     ///< of these, those that require a gradient
};

struct LayerSummary {
  std::vector<LayerRow> layers;  ///< in the order of their registration
  // Of the whole module; what layers share counts once.
  int64_t parameters = 0;
  int64_t trained = 0;
};

/// The module's parameters and children; where one child is all there is, that one's.
LayerSummary layer_summary(const torch::nn::Module& module);

/// Lines for --explain: how many parameters there are, and a line for each layer, at most 40.
std::string explained_layers(const LayerSummary& summary);

/// {"parameters", "trained_parameters", "layers": [{"name", "type", "parameters", "trained"}]}.
Json to_json(const LayerSummary& summary);

}  // namespace muster::train
