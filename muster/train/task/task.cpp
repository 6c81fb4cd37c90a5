#include "muster/train/task/task.h"

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::train {

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::kTrain:
      return "train";
    case Phase::kValidate:
      return "validate";
    case Phase::kTest:
      return "test";
  }
  return "?";
}

void Task::move_to(c10::Device device) { module()->to(device); }

tensor::NamedTensorList Task::predict_step(const data::Batch&, const StepContext&) {
  throw usage_error({.refused = "it predicts nothing",
                     .rule = "it has no predict_step() of its own",
                     .hint = "override Task::predict_step()"});
}

}  // namespace muster::train
