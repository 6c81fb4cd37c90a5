#include "muster/train/metrics/scores.h"

#include <vector>

namespace muster::train {

at::Tensor scores_of(models::Classifier& model, const at::Tensor& images) {
  const std::vector<at::Tensor> parameters = model.parameters();
  const at::ScalarType dtype =
      parameters.empty() ? images.scalar_type() : parameters[0].scalar_type();
  return model.forward(images.to(dtype)).to(at::kFloat);
}

}  // namespace muster::train
