// The end of a run whose numbers are no longer finite.
#pragma once

#include <set>
#include <string>

#include <torch/nn/module.h>

#include "muster/base/error.h"
#include "muster/distributed/process_group.h"
#include "muster/train/checkpoints/model_state.h"
#include "muster/train/metrics/meter.h"
#include "muster/train/plan/callbacks.h"
#include "muster/train/progress/messages.h"
#include "muster/train/record/run_log.h"
#include "muster/train/task/evaluation.h"

namespace muster::train {

/// What the run ends with.
class Diverged : public Error {
 public:
  using Error::Error;
};

/// All ranks end alike, with the same error. What was saved before stays, and stays `latest` and
/// `best`; the run's page says why there is no more. Used by the rank's own thread.
class Divergence {
 public:
  Divergence(const FitPlan& plan,
             distributed::ProcessGroup group,
             RunLog& log,
             const FitCallbacks& callbacks)
      : plan_(plan), group_(std::move(group)), log_(log), callbacks_(callbacks) {}

  /// Of a model as it is made: a buffer with infinities, such as a mask of attention, keeps them.
  void begin(const torch::nn::Module& model) { infinite_ = infinite_buffers(model); }

  /// Where the run is.
  struct Where {
    formats::TrainPosition position;
    double lr = 0;
    int64_t last_saved = -1;  ///< step of the newest checkpoint; -1: there is none
  };

  /// Throws Diverged, an environment error, after rank 0 has told it.
  [[noreturn]] void end(const Where& where, const NotFinite& found) const;

  /// Ends the run if a parameter or buffer of any rank has a NaN or an infinity. A loss says nothing
  /// of the step that it leads to: a gradient may be NaN where the loss is not, and behind the last
  /// step no loss comes. Collective.
  void check_weights(const tensor::NamedTensorList& own, const Where& where) const;

  /// Ends the run if a metric of the task, in the sums of all ranks of a step, is NaN.
  void check_metrics(const Meter& sums, const Where& where) const;

  /// Ends the run if an evaluation's loss is not finite, or a metric of the task is NaN, or that by
  /// which epochs are judged not finite: the same on all ranks.
  void check_evaluation(const Evaluation& seen, Phase phase, const Where& where) const;

 private:
  const FitPlan& plan_;
  distributed::ProcessGroup group_;
  RunLog& log_;
  const FitCallbacks& callbacks_;
  std::set<std::string> infinite_;  // buffers that may be
};

}  // namespace muster::train
