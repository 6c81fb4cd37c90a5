// Loads a state dict that Python saved into a model of the zoo and scores images with it.
//
//     model_twin SPECS.json
//
// SPECS.json is a list of {model, params, classes, weights, images, scores}: the last three are
// safetensors files in the working folder. `images` holds images // [N, C, H, W] float32, and
// `scores` is written with scores // [N, classes] float32. test_models.py compares.
#include <iostream>

#include <c10/core/GradMode.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/models/model.h"
#include "muster/models/weights.h"
#include "muster/tensor/safetensors.h"

namespace {

using muster::Json;

void score(const Json& spec) {
  const auto images =
      muster::tensor::read_safetensors(spec.at("images").get<std::string>()).at("images");
  const auto model = muster::models::make_model(spec.at("model").get<std::string>(),
                                                {.channels = images.size(1),
                                                 .height = images.size(2),
                                                 .width = images.size(3),
                                                 .classes = spec.at("classes")},
                                                spec.at("params").get<muster::ParamValues>());
  muster::models::load_weights(
      *model, muster::tensor::read_safetensors(spec.at("weights").get<std::string>()).tensors);
  model->eval();
  const c10::NoGradGuard no_grad;
  muster::tensor::TensorFile scores;
  scores.tensors.emplace_back("scores", model->forward(images));
  muster::write_file_atomic(spec.at("scores").get<std::string>(),
                            muster::tensor::to_safetensors(scores));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: model_twin SPECS.json\n";
    return 2;
  }
  try {
    for (const Json& spec : muster::parse_json(muster::read_file(argv[1]), argv[1])) score(spec);
  } catch (const muster::Error& error) {
    std::cerr << error.what() << '\n';
    return error.exit_code();
  }
}
