// A run whose ranks are threads of this process.

#include "muster/train/loop/fit.h"
#include "muster/train/loop/run_start.h"

namespace muster::train {

FitResult fit_on_threads(const TaskMaker& make_task,
                         const FitData& data,
                         const FitPlan& plan,
                         const std::filesystem::path& output,
                         const std::optional<Checkpoint>& resume,
                         const FitCallbacks& callbacks,
                         RunFolder* owned) {
  const tensor::MathModesGuard modes(math_modes_of(plan.options));
  const auto ranks = static_cast<int>(plan.world_size);
  FitResult result;
  distributed::ThreadWorld(ranks).run(
      [&](const distributed::ProcessGroup& group) {
        FitResult own = fit(make_task, data, plan, group, output, resume, callbacks, owned);
        if (group.rank() == 0) result = std::move(own);
      },
      static_cast<int>(plan.intraop_threads));
  return result;
}

}  // namespace muster::train
