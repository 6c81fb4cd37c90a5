// What a task's module says of each sample.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "muster/data/dataset.h"
#include "muster/distributed/process_group.h"
#include "muster/train/loop/evaluate.h"
#include "muster/train/task/task.h"

namespace muster::train {

/// Some samples' answers, on rank 0: row i is of the sample `first` + i.
struct PredictedRows {
  int64_t first = 0;
  tensor::NamedTensorList columns;  ///< what Task::predict_step said // [rows, …] each, on the CPU
};

/// Asks Task::predict_step for every sample once, in evaluation mode and without gradients; the
/// module's mode is put back. The ranks share the samples. `on_rows` gets them on rank 0, in the
/// order of the dataset, a batch of all ranks at a time, so that no more than that is held. Every
/// forward is of as many samples, whatever the number of ranks (the last ones are filled up with samples
/// whose answers are dropped): a kernel rounds alike then; but for datasets that are by sample, whose
/// batches differ in form anyway. Throws a usage error for a task that
/// predicts nothing, or whose answers have not one row per sample, alike in name, dtype and shape.
/// Collective.
void predict(Task& task,
             std::shared_ptr<const data::Dataset> dataset,
             const distributed::ProcessGroup& group,
             const EvaluateOptions& options,
             const std::function<void(const PredictedRows&)>& on_rows);

}  // namespace muster::train
