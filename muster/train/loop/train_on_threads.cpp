// A run whose ranks are threads of this process.
#include <algorithm>

#include <ATen/Parallel.h>

#include "muster/train/loop/trainer.h"

namespace muster::train {

TrainResult train_on_threads(const TrainPlan& plan,
                             const TrainData& data,
                             const std::filesystem::path& output,
                             const std::optional<Checkpoint>& resume,
                             const TrainCallbacks& callbacks) {
  const auto ranks = static_cast<int>(plan.world_size);
  TrainResult result;
  distributed::ThreadWorld(ranks).run(
      [&](const distributed::ProcessGroup& group) {
        TrainResult own = train(plan, data, group, output, resume, callbacks);
        if (group.rank() == 0) result = std::move(own);
      },
      std::max(1, at::get_num_threads() / ranks));
  return result;
}

}  // namespace muster::train
