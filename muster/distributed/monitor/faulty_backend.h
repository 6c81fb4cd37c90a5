// A backend that does wrong what a fault plan says. For tests of what comes around it.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "muster/diagnose/record/fault_plan.h"
#include "muster/diagnose/record/flight_recorder.h"
#include "muster/distributed/monitor/decorated_backend.h"

namespace muster::distributed {

/// What a plan says of one rank, for all groups that come from the first one. Calls are counted together,
/// whichever of the groups they are made in. Any thread.
class RankFaults {
 public:
  /// `rank` in the first group. `steps` tells the step (mark_step); may be null, then no rule with a step
  /// strikes. Throws a usage error if `is_thread` and the plan kills or stops: that would strike every
  /// rank.
  RankFaults(diagnose::FaultPlan plan,
             int rank,
             bool is_thread,
             std::shared_ptr<const diagnose::FlightRecorder> steps);

  /// Those that strike the next call, which is counted.
  std::vector<diagnose::FaultRule> strike(diagnose::OpKind kind);

 private:
  struct Rule {
    diagnose::FaultRule rule;
    int64_t calls = 0;  ///< that fitted it so far
  };
  bool strikes(Rule& rule, diagnose::OpKind kind) const;

  std::mutex mutex_;
  std::vector<Rule> rules_;
  std::shared_ptr<const diagnose::FlightRecorder> steps_;
};

/// Sits outside of the monitor: to the others, a skipped call is one that this rank's program did not
/// make. The same calls meet the same faults in every run.
class FaultyBackend : public DecoratedBackend {
 public:
  FaultyBackend(c10::intrusive_ptr<c10d::Backend> inner, std::shared_ptr<RankFaults> faults);
  ~FaultyBackend() override;

  const std::shared_ptr<RankFaults>& faults() const { return faults_; }

 protected:
  WorkPtr around(const OpCall& call, Posting& posting) override;

 private:
  WorkPtr post_with_held(Posting& posting);

  std::shared_ptr<RankFaults> faults_;
  std::function<void()> held_;  // a call that waits for the next one
};

}  // namespace muster::distributed
