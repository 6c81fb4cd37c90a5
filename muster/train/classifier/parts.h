// The model that a plan names, made.
#pragma once

#include <memory>

#include "muster/models/model.h"
#include "muster/train/classifier/train_plan.h"

namespace muster::train {

/// The model with the weights that the seed draws, or those of --weights: the same on every rank. A
/// resumed run has its weights from the checkpoint, and --weights is not read again. Draws from torch's
/// default CPU generator, which the caller has seeded; see make_seeded().
std::shared_ptr<models::Classifier> make_initial_model(const TrainPlan& plan, bool is_resumed);

/// Throws a usage error for parameters that the model cannot be made from, and if some batch leaves
/// a rank (of --sync-batch-norm: all ranks together) a single sample and the model cannot train on
/// one: BatchNorm behind layers that leave one value per channel. Makes the model only where one of these can be.
void check_model(const TrainPlan& plan);

}  // namespace muster::train
