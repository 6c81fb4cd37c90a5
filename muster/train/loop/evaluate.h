// A task's loss and metrics over a dataset, each sample counted once.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include <c10/core/Device.h>

#include "muster/data/dataset.h"
#include "muster/distributed/process_group.h"
#include "muster/train/metrics/meter.h"
#include "muster/train/plan/precision.h"
#include "muster/train/replicas/strategy.h"
#include "muster/train/task/evaluation.h"
#include "muster/train/task/task.h"

namespace muster::train {

struct EvaluateOptions {
  int64_t batch_size = 256;  ///< per rank; the result does not depend on it but for rounding
  /// What to do when memory runs out.
  std::string memory_hint = "take a smaller --batch-size, or another --device";
  /// What stands behind that, as memory_lines(); asked in the error's handler.
  std::function<std::string()> more_on_memory = {};
  int64_t workers = 0;
  double loader_timeout_s = 0;                ///< LoaderOptions::timeout_s
  Precision precision = Precision::kFloat32;  ///< that forward and loss run in
  Phase phase = Phase::kTest;
  int64_t step = 0, epoch = 0;    ///< for the StepContext
  int64_t ranks_per_replica = 1;  ///< that hold one model between them and see the same samples
  std::optional<c10::Device> device = {};  ///< where steps are; else where the module is
  Strategy* strategy = nullptr;  ///< whose weights may be in shards; null: the module has them
};

/// Called with the batches that this rank has done, those it has, and what they sum up to.
using AfterBatch = std::function<void(int64_t done, int64_t batches, const Meter& so_far)>;

/// In evaluation mode, without gradients, on the device of the module; the module's mode is put back. The ranks share the samples
/// without repeating or leaving out any; buffers are rank 0's, as DDP's forward would make them.
/// Collective.
Evaluation evaluate(Task& task,
                    std::shared_ptr<const data::Dataset> dataset,
                    const distributed::ProcessGroup& group,
                    const EvaluateOptions& options,
                    const AfterBatch& after_batch = {});

/// The same. `show` gets the batches of this rank as they are done, with numbers of all ranks: at the
/// end, or all the time if there is one rank; none before. A rank's own share would pass for the
/// result.
Evaluation evaluate_shown(
    Task& task,
    const std::shared_ptr<const data::Dataset>& dataset,
    const distributed::ProcessGroup& group,
    const EvaluateOptions& options,
    const std::function<void(int64_t done, int64_t batches, const Metrics& all)>& show);

}  // namespace muster::train
