#include "muster/distributed/rank_activity.h"

namespace muster::distributed {

RankActivity::RankActivity(const std::vector<ProcessGroup>& groups,
                           const std::function<std::string()>& words) {
  for (const ProcessGroup& group : groups)
    for (const at::Device kind : group.c10d()->getDeviceTypes())
      if (auto recorder = recorder_of(*group.c10d()->getBackend(kind.type())))
        recorders_.push_back(std::move(recorder));
  for (const auto& recorder : recorders_) recorder->set_activity(words);
}

RankActivity::~RankActivity() {
  for (const auto& recorder : recorders_) recorder->set_activity({});
}

}  // namespace muster::distributed
