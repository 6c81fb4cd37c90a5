// Where a task is while a strategy places its module's units.
#pragma once

#include <c10/core/Device.h>

#include "muster/train/task/task.h"

namespace muster::train {

/// Task::move_to() with the tensors of its module's units left where they are: the task finds them
/// without elements while it moves.
void move_but_units(Task& task, c10::Device device);

}  // namespace muster::train
