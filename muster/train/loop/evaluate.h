// A model's loss and accuracy over a dataset, each sample counted once.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "muster/data/dataset.h"
#include "muster/distributed/process_group.h"
#include "muster/models/model.h"
#include "muster/train/loop/evaluation.h"
#include "muster/train/loop/precision.h"
#include "muster/train/plan/train_data.h"

namespace muster::train {

struct EvaluateOptions {
  int64_t batch_size = 256;  ///< per rank; the result does not depend on it but for rounding
  int64_t workers = 0;
  int64_t top_k = 0;  ///< also count samples whose class is among the k best scores; 0: do not
  Precision precision = Precision::kFloat32;  ///< that forward and loss run in
  bool confusion = false;  ///< also fill a confusion matrix over the dataset's classes
};

/// Right answers among `scores` // [N, classes] for `target` // [N] int64.
int64_t count_correct(const at::Tensor& scores, const at::Tensor& target);

/// In eval mode, without gradients, cross-entropy as loss; the module's mode is put back. The ranks
/// share the samples without repeating or leaving out any; buffers are rank 0's, as DDP's forward
/// would make them. Collective. `after_batch(done, batches, so far on this rank)` is called after
/// each batch of this rank.
Evaluation evaluate(models::Classifier& model,
                    std::shared_ptr<const data::Dataset> dataset,
                    const distributed::ProcessGroup& group,
                    const EvaluateOptions& options,
                    const std::function<void(int64_t, int64_t, const Meter&)>& after_batch = {});

/// The same for a split of a run, as its plan says; the phase `test` with a confusion matrix. `show`
/// gets the batches of this rank as they are done, with numbers of all ranks: at the end, or all the
/// time if there is one rank; an empty meter before. A rank's own share would pass for the result.
Evaluation evaluate_shown(models::Classifier& model,
                          const DatasetPtr& split,
                          const distributed::ProcessGroup& group,
                          const TrainPlan& plan,
                          const std::string& phase,
                          const std::function<void(int64_t, int64_t, const Meter&)>& show);

}  // namespace muster::train
