// The parts that a plan names, made.
#pragma once

#include <memory>

#include "muster/data/loader/loader.h"
#include "muster/distributed/process_group.h"
#include "muster/models/model.h"
#include "muster/optim/optimizer.h"
#include "muster/train/plan/train_data.h"

namespace muster::train {

/// This rank's loader: every training sample once per epoch over all ranks, in an order that is a
/// function of (seed, epoch).
std::unique_ptr<data::Loader> make_loader(const TrainPlan& plan,
                                          const DatasetPtr& train,
                                          const distributed::ProcessGroup& group);

/// The model with the weights that the seed draws, or those of --weights: the same on every rank. A
/// resumed run has its weights from the checkpoint, and --weights is not read again. Seeds torch's
/// default CPU generator; any thread.
std::shared_ptr<models::Classifier> make_initial_model(const TrainPlan& plan, bool is_resumed);

/// Throws a usage error for parameters that the model cannot be made from, and if some batch leaves
/// a rank a single sample and the model cannot train on one: BatchNorm behind layers that leave one
/// value per channel. Makes the model only where one of these can be.
void check_model(const TrainPlan& plan);

/// Two black images, for a forward whose result is not used; one would be too few for BatchNorm.
data::Batch stand_in_batch(const models::ImageShape& shape);

std::unique_ptr<optim::Optimizer> make_optimizer(const TrainPlan& plan,
                                                 const models::Classifier& model);

}  // namespace muster::train
