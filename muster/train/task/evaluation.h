// What an evaluation found.
#pragma once

#include "muster/train/metrics/metric.h"
#include "muster/train/task/task.h"

namespace muster::train {

struct Evaluation {
  Metrics metrics;    ///< of all samples; empty if there were none
  double weight = 0;  ///< the samples, or what Task::weight says of them
  TaskReport report;  ///< of a test
};

}  // namespace muster::train
