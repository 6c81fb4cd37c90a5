// A training step of a model of the zoo, on any device: for the estimate, and for what it is compared with.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "muster/memory/estimate/estimate.h"
#include "muster/models/model.h"
#include "muster/optim/optimizer.h"

namespace muster::test {

struct ZooCase {
  std::string model;
  models::ImageShape shape;
  int64_t batch = 1;
  std::string optimizer = "sgd";
  ParamValues optimizer_params = {};
  ParamValues model_params = {};

  std::string text() const {
    return concat(model,
                  shape.vocabulary > 0 ? " of tokens" : "",
                  ", batch ",
                  batch,
                  ", ",
                  optimizer,
                  optimizer_params.empty() ? "" : " with momentum");
  }
};

/// Model, optimizer and batch.
class ZooStep {
 public:
  ZooStep(const ZooCase& from, c10::Device device) {
    torch::manual_seed(0);
    model_ = models::make_model(from.model, from.shape, from.model_params);
    if (device.is_meta()) {
      memory::move_to_meta(*model_);
    } else if (!device.is_cpu()) {
      model_->to(device);
    }
    tensor::NamedTensorList parameters;
    for (const auto& item : model_->named_parameters())
      parameters.emplace_back(item.key(), item.value());
    optimizer_ = optim::optimizers()
                     .at(from.optimizer)
                     .make(std::move(parameters), 1e-3, from.optimizer_params);
    const models::ImageShape& shape = from.shape;
    const auto ids = at::device(device).dtype(at::kLong);
    data_ = shape.vocabulary > 0
                ? at::zeros({from.batch, shape.width}, ids)
                : at::zeros({from.batch, shape.channels, shape.height, shape.width}, device);
    target_ = at::zeros({from.batch}, ids);
  }

  void run() {
    optimizer_->zero_grad();
    at::cross_entropy_loss(model_->forward(data_), target_).backward();
    optimizer_->step();
  }
  const std::shared_ptr<models::Classifier>& model() const { return model_; }
  std::vector<at::Tensor> state() const {
    std::vector<at::Tensor> all;
    for (const auto& [name, tensor] : optimizer_->state()) all.push_back(tensor);
    return all;
  }
  std::vector<at::Tensor> inputs() const { return {data_, target_}; }

 private:
  std::shared_ptr<models::Classifier> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  at::Tensor data_, target_;
};

inline memory::PeakEstimate estimate_of(const ZooCase& from,
                                        const memory::EstimateOptions& options = {}) {
  const auto make = [&] {
    const auto step = std::make_shared<ZooStep>(from, at::kMeta);
    return memory::MetaStep{.module = step->model(),
                            .run = [step] { step->run(); },
                            .optimizer_state = [step] { return step->state(); },
                            .inputs = step->inputs()};
  };
  return memory::estimate_peak(make, options);
}

}  // namespace muster::test
