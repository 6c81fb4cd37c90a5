#include "muster/parallel/pipeline_ranks/stage_averages.h"

#include <algorithm>
#include <utility>

namespace muster::parallel {

StageAverages::StageAverages(distributed::ProcessGroup replicas,
                             std::vector<std::pair<int64_t, Tensors>> stages)
    : replicas_(std::move(replicas)), stages_(std::move(stages)) {
  std::sort(stages_.begin(), stages_.end(), [](const auto& a, const auto& b) {
    return a.first > b.first;
  });
}

void StageAverages::post(int64_t stage) {
  whole_.insert(stage);
  while (next_ < stages_.size() && whole_.contains(stages_[next_].first)) post_next(true);
}

void StageAverages::post_next(bool with_gradients) {
  GradientMean mean(stages_[next_].second, replicas_.world_size(), with_gradients);
  ++next_;
  means_.push_back(std::move(mean));
  waits_ = true;
  means_.back().start(replicas_);
  waits_ = false;
}

void StageAverages::wait() {
  for (GradientMean& mean : means_) {
    waits_ = true;
    mean.wait();
    waits_ = false;
    mean.store();
  }
  means_.clear();
}

void StageAverages::give_up() {
  while (next_ < stages_.size()) post_next(false);
  for (GradientMean& mean : means_) mean.wait();
  means_.clear();
}

}  // namespace muster::parallel
