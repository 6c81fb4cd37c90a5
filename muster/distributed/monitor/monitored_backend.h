// Any backend, with its operations recorded and watched. See Note [Naming the culprit].
#pragma once

#include <memory>

#include "muster/distributed/monitor/decorated_backend.h"
#include "muster/distributed/monitor/monitor_core.h"

namespace muster::distributed {

class MonitoredBackend : public DecoratedBackend {
 public:
  MonitoredBackend(c10::intrusive_ptr<c10d::Backend> inner,
                   const MonitorRequest& request,
                   const MonitorOptions& options);
  /// Does not wait for operations that hang in a group that has failed.
  ~MonitoredBackend() override;

  const std::shared_ptr<diagnose::FlightRecorder>& recorder() const { return monitor_->recorder(); }
  void setTimeout(std::chrono::milliseconds timeout) override;

 protected:
  WorkPtr around(const OpCall& call, Posting& posting) override;

 private:
  std::shared_ptr<Monitor> monitor_;
};

}  // namespace muster::distributed
