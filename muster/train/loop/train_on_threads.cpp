// A run whose ranks are threads of this process.
#include "muster/train/loop/trainer.h"

namespace muster::train {

TrainResult train_on_threads(const TrainPlan& plan,
                             const TrainData& data,
                             const std::filesystem::path& output,
                             const std::optional<Checkpoint>& resume,
                             const TrainCallbacks& callbacks,
                             RunFolder* owned) {
  const auto ranks = static_cast<int>(plan.world_size);
  TrainResult result;
  distributed::ThreadWorld(ranks).run(
      [&](const distributed::ProcessGroup& group) {
        TrainResult own = train(plan, data, group, output, resume, callbacks, owned);
        if (group.rank() == 0) result = std::move(own);
      },
      static_cast<int>(plan.intraop_threads));
  return result;
}

}  // namespace muster::train
