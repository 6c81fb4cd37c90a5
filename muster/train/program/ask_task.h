// `PROGRAM evaluate RUN` and `PROGRAM predict RUN`: a run of a program's own task, asked.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "muster/program/screen/console.h"
#include "muster/tensor/device/device_kinds.h"
#include "muster/train/program/ask_flags.h"
#include "muster/train/program/task_program.h"

namespace muster::train {

/// Makes data and task as the run had them (its own flags, unless they are said now), takes the
/// weights of its checkpoint, which rank 0 alone need see, and asks: alone, or as one rank of the job
/// that the environment names; on one of `kinds` of devices. Numbers go to stdout, predictions to their
/// file, both by rank 0. Throws as read_weights(), evaluate() and predict(), and a usage error for a run of
/// another task and a split that the program has not. Returns the exit code: 0, or 130 if a signal
/// stopped the predictions.
int ask_task(const TaskAskLine& line,
             const std::string& name,
             const std::vector<TaskProgram::Flag>& own,
             const std::function<TaskParts()>& make,
             const tensor::DeviceKinds& kinds,
             program::Console& console);

}  // namespace muster::train
