#include "muster/train/task/task.h"

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

}  // namespace muster::train
