#include "cli/tune_sinks.h"

#include <filesystem>
#include <vector>

#include <unistd.h>

#include "muster/base/host.h"
#include "muster/tune/storage/storage.h"
#include "muster/tune/views/history.h"

namespace muster::cli {
namespace {

std::vector<tune::Event> stored_events(const tune::StudySpec& spec) {
  if (!std::filesystem::exists(spec.storage)) return {};
  for (const tune::StudySummary& study : tune::studies_of(spec.storage)) {
    if (study.name == spec.name) return tune::read_events(spec.storage, spec.name);
  }
  return {};
}

}  // namespace

TuneSinks::TuneSinks(const tune::StudySpec& spec) {
  if (!spec.ray_files && !spec.tensorboard) return;
  const std::vector<tune::Event> past = stored_events(spec);
  if (spec.ray_files) {
    ray_ = std::make_unique<tune::RayFiles>(
        spec.trial_folder / "ray",
        facts_of(spec),
        tune::RayHost{.hostname = host_name(), .node_ip = "127.0.0.1", .pid = ::getpid()});
    ray_->take(past);
  }
  if (spec.tensorboard) {
    tensorboard_ = std::make_unique<tune::TensorBoardTrials>(spec.trial_folder / "tensorboard",
                                                             facts_of(spec));
    tensorboard_->take(past, /*past=*/true);
  }
}

void TuneSinks::take(std::span<const tune::Event> events) {
  if (ray_) ray_->take(events);
  if (tensorboard_) tensorboard_->take(events);
}

}  // namespace muster::cli
