#include "muster/models/zoo/mlp.h"

#include "muster/base/text.h"
#include "muster/models/layers/size_limits.h"

namespace muster::models {

MlpImpl::MlpImpl(const ImageShape& shape, const MlpOptions& options) {
  const auto [hidden, layers] = options;
  const std::string sizes = concat("hidden=", hidden, ",layers=", layers);
  if (hidden < 1 || layers < 1 || layers > kMostLayers) {
    throw usage_error(
        {.refused = "model mlp",
         .rule = concat("hidden and layers are at least 1, layers at most ", kMostLayers),
         .value = sizes});
  }
  check_weights("mlp",
                {{shape.channels, shape.height, shape.width, hidden},
                 {layers - 1, hidden, hidden},
                 {hidden, shape.classes}},
                sizes);
  int64_t width = shape.channels * shape.height * shape.width;
  for (int64_t i = 1; i <= options.layers + 1; ++i) {
    const int64_t next = i <= options.layers ? options.hidden : shape.classes;
    layers_.push_back(register_module(concat("fc", i), torch::nn::Linear(width, next)));
    width = next;
  }
}

std::vector<ModelPart> MlpImpl::parts() {
  std::vector<ModelPart> parts;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const bool is_last = i + 1 == layers_.size();
    parts.push_back({.name = concat("fc", i + 1),
                     .modules = {layers_[i].ptr()},
                     .forward = [this, i, is_last](const at::Tensor& x) {
                       const at::Tensor out = layers_[i]->forward(i == 0 ? x.flatten(1) : x);
                       return is_last ? out : out.relu();
                     }});
  }
  return parts;
}

namespace {

constexpr Param kMlpParams[] = {param<&MlpOptions::hidden>("hidden", "width of each hidden layer"),
                                param<&MlpOptions::layers>("layers", "number of hidden layers")};

std::shared_ptr<Classifier> make_mlp(const ImageShape& shape, const ParamValues& params) {
  return std::make_shared<MlpImpl>(shape,
                                   resolve_params<MlpOptions>(kMlpParams, params, "model mlp"));
}

}  // namespace

extern constinit const ModelEntry mlp_entry{.name = "mlp",
                                            .help = "fully connected layers with ReLU between them",
                                            .min_size = 1,
                                            .channels = 0,
                                            .params = kMlpParams,
                                            .make = &make_mlp,
                                            .takes_numbers = true};

}  // namespace muster::models
