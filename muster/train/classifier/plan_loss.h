// What a plan's loss is, of classes and of numbers.
#pragma once

#include <string>

#include "muster/train/classifier/train_plan.h"

namespace muster::train {

/// Fills in --loss and --monitor where they are auto: they hang on what the data's targets are
/// (plan.target_scale). Throws a usage error for what is of the other kind of targets.
void resolve_loss(TrainPlan& plan);

/// The loss, for --explain.
std::string loss_text(const TrainPlan& plan);

}  // namespace muster::train
