// A trained classifier or regressor, ready to be asked about samples: what `muster evaluate` and `muster
// predict` share.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/rank_env.h"
#include "muster/distributed/process_group.h"
#include "muster/train/classifier/train_data.h"
#include "muster/train/loop/evaluate.h"
#include "muster/train/loop/resolve.h"
#include "muster/train/plan/ask_options.h"
#include "muster/train/plan/placement.h"
#include "muster/train/task/task.h"

namespace muster::train {

struct AskedClassifier {
  std::unique_ptr<Task> task;        ///< with the run's weights; for evaluate() and predict()
  DatasetPtr samples;                ///< in the size and with the channels that the model takes
  EvaluateOptions options;           ///< the run's precision, and what was said
  bool is_regression = false;        ///< it says a number of each sample, not a class
  std::string model;                 ///< "mlp:hidden=64"
  std::string data;                  ///< "fashion-mnist"
  std::string split;                 ///< "test"
  std::filesystem::path checkpoint;  ///< whose weights these are, as rank 0 sees it
  int64_t step = 0;                  ///< of the checkpoint
  c10::Device device = c10::kCPU;    ///< where the task is
  std::vector<std::string> notes;    ///< for people: what keeps numbers from being compared
  /// A sample's file by its number: "cat/1.jpg"; null where samples are no files.
  std::function<std::string(int64_t)> file_of;
};

/// Reads the run's plan and weights on rank 0, which alone need see its folder, and opens the
/// samples on every rank; the task is on `device`. Nothing is written. Throws a usage error as read_weights(), for a run
/// whose task is another, samples of other sizes or classes than the model was trained on, a split
/// that the run has not, and ranks that see other samples than rank 0. Collective.
AskedClassifier ask_classifier(const AskOptions& said,
                               const Surroundings& around,
                               const distributed::ProcessGroup& group,
                               c10::Device device = c10::kCPU);

}  // namespace muster::train
