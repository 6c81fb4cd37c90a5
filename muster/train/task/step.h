// What the loop and the evaluation do with a task's step.
#pragma once

#include <memory>

#include <c10/core/Device.h>

#include "muster/train/metrics/step_sums.h"
#include "muster/train/task/task.h"

namespace muster::train {

/// Where the batch is: the device of its first tensor.
c10::Device device_of(const data::Batch& batch);

/// A copy in host memory.
data::Batch on_host(const data::Batch& batch);

/// What the batch's mean loss weighs.
double weight_of(const Task& task, const data::Batch& batch);

/// The dataset, its batches put together as the task says. Null for null.
std::shared_ptr<const data::Dataset> as_task_takes(const Task& task,
                                                   std::shared_ptr<const data::Dataset> dataset);

/// Throws a usage error unless the loss is a scalar, and, if `trains`, has a gradient.
void check_result(const Task& task, const StepResult& result, bool trains);

/// Adds the step's loss and values, of samples that weigh so much. Throws a usage error for a value
/// that is none of the task's metrics, or no scalar.
void add_to(StepSums& sums, const Task& task, const StepResult& result, double weight);

}  // namespace muster::train
