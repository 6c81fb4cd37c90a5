// What a rank works at while others wait for it, for their errors.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "muster/distributed/process_group.h"

namespace muster::distributed {

/// While it lives, this rank's heartbeats in these groups say what `words` returns: "forward of stage
/// 1, micro-batch 3 (1F3)". Where an operation's time is over before this rank has come, the errors of
/// the others have these words, and name no rank that says nothing beside one that works. `words` is
/// called by the monitors' threads; empty words say nothing, as of a rank that waits for others itself.
/// One at a time in a group. Nothing where the monitor is off.
class RankActivity {
 public:
  RankActivity(const std::vector<ProcessGroup>& groups, const std::function<std::string()>& words);
  ~RankActivity();
  RankActivity(const RankActivity&) = delete;

 private:
  std::vector<std::shared_ptr<diagnose::FlightRecorder>> recorders_;
};

}  // namespace muster::distributed
