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

/// Sits outside of the monitor: to the others, a skipped call is one that this rank's program did not
/// make. The same calls meet the same faults in every run.
class FaultyBackend : public DecoratedBackend {
 public:
  /// `steps` tells the step (mark_step); may be null, then no rule with a step strikes. Throws a
  /// usage error if `is_thread` and the plan kills or stops: that would strike every rank.
  FaultyBackend(c10::intrusive_ptr<c10d::Backend> inner,
                diagnose::FaultPlan plan,
                bool is_thread,
                std::shared_ptr<const diagnose::FlightRecorder> steps);
  ~FaultyBackend() override;

 protected:
  WorkPtr around(const OpCall& call, Posting& posting) override;

 private:
  struct Rule {
    diagnose::FaultRule rule;
    int64_t calls = 0;  ///< that fitted it so far
  };
  bool strikes(Rule& rule, diagnose::OpKind kind) const;
  WorkPtr post_with_held(Posting& posting);

  std::vector<Rule> rules_;
  std::shared_ptr<const diagnose::FlightRecorder> steps_;
  std::function<void()> held_;  // a call that waits for the next one
};

}  // namespace muster::distributed
