// A backend that does wrong what a fault plan says. For tests of what comes around it.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "muster/parallel/decorated_backend.h"
#include "muster/parallel/formats/fault_plan.h"
#include "muster/parallel/formats/flight_recorder.h"

namespace muster::parallel {

/// Sits outside of the watch: to the others, a skipped call is one that this rank's program did not
/// make. The same calls meet the same faults in every run.
class FaultyBackend : public DecoratedBackend {
 public:
  /// `steps` tells the step (mark_step); may be null, then no rule with a step strikes. Throws a
  /// usage error if `is_thread` and the plan kills or stops: that would strike every rank.
  FaultyBackend(c10::intrusive_ptr<c10d::Backend> inner,
                FaultPlan plan,
                bool is_thread,
                std::shared_ptr<const FlightRecorder> steps);
  ~FaultyBackend() override;

 protected:
  WorkPtr around(const OpCall& call, Posting& posting) override;

 private:
  struct Rule {
    FaultRule rule;
    int64_t calls = 0;  ///< that fitted it so far
  };
  bool strikes(Rule& rule, OpKind kind) const;
  WorkPtr post_with_held(Posting& posting);

  std::vector<Rule> rules_;
  std::shared_ptr<const FlightRecorder> steps_;
  std::function<void()> held_;  // a call that waits for the next one
};

}  // namespace muster::parallel
