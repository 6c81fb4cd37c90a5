#include "muster/distributed/own_failure.h"

#include <atomic>
#include <optional>
#include <thread>

#include "muster/base/ended_ranks.h"
#include "muster/base/rank_env.h"
#include "muster/distributed/meet/waited_time.h"
#include "muster/distributed/monitor/monitored_backend.h"

namespace muster::distributed {
namespace {

/// Null where the monitor is off.
MonitoredBackend* monitor_of(const ProcessGroup& group) {
  return monitored_in(*group.c10d()->getBackend(group.device().type()));
}

/// Some group of this process was told of a failure of its own, or has one in common.
std::atomic<bool> ends_by_failure{false};

}  // namespace

void record_failure(const ProcessGroup& group, const std::string& why) {
  if (MonitoredBackend* monitor = monitor_of(group)) monitor->failed_by_itself(why);
}

bool note_own_failure(const ProcessGroup& group, const std::string& why) {
  const MonitoredBackend* monitor = monitor_of(group);
  if (monitor != nullptr && monitor->has_failed()) return false;
  record_failure(group, why);
  ends_by_failure = true;
  return true;
}

void note_common_failure(const ProcessGroup& group) {
  if (group.world_size() > 1) ends_by_failure = true;
}

void let_others_hear(std::chrono::milliseconds patience) {
  const std::optional<RankEnv> env = ends_by_failure ? rank_env_from() : std::nullopt;
  if (!env || env->rank != 0 || env->use_agent_store) return;
  const auto all_have_ended = [&] {
    for (int64_t rank = 1; rank < env->world_size; ++rank)
      if (!has_ended(env->master_port, rank)) return false;
    return true;
  };
  WaitedTime waited(std::chrono::milliseconds(100));
  while (waited.look() < patience && !all_have_ended())
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

}  // namespace muster::distributed
