// A run whose ranks are threads of this process.

#include "muster/train/loop/anomaly_mode.h"
#include "muster/train/loop/fit.h"
#include "muster/train/loop/run_start.h"

namespace muster::train {

FitResult fit_on_threads(const FitRequest& run, const distributed::ThreadWorld::Overdue& overdue) {
  const tensor::MathModesGuard modes(math_modes_of(run.plan.options));
  const AnomalyMode anomalies(run.plan.options.detect_anomaly);
  const auto ranks = static_cast<int>(run.plan.world_size);
  FitResult result;
  distributed::ThreadWorld(ranks).run(
      [&](const distributed::ProcessGroup& group) {
        FitResult own = fit(run, group);
        if (group.rank() == 0) result = std::move(own);
      },
      static_cast<int>(run.plan.intraop_threads),
      overdue);
  return result;
}

}  // namespace muster::train
