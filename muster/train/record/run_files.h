// What a run leaves for people to look at, beside its metrics and checkpoints.
#pragma once

#include <filesystem>

#include "muster/train/loop/trainer.h"
#include "muster/train/plan/plan.h"

namespace muster::train {

/// index.html (curves, result, plan, confusion matrix, checkpoints), curves.svg, and
/// confusion_matrix.csv if there is one. Reads metrics.jsonl. Throws an environment error.
void write_run_page(const TrainPlan& plan,
                    const std::filesystem::path& output,
                    const TrainResult& result,
                    double seconds);

}  // namespace muster::train
