// Any backend, with its operations recorded and watched. See Note [Naming the culprit].
#pragma once

#include <exception>
#include <memory>
#include <string>

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
  /// See Monitor. Where an exception drops the group, it comes by itself.
  void failed_by_itself(const std::string& why) { monitor_->failed_by_itself(why); }
  bool has_failed() const { return monitor_->has_failed(); }
  void setTimeout(std::chrono::milliseconds timeout) override;

 protected:
  WorkPtr around(const OpCall& call, Posting& posting) override;

 private:
  static const Monitor* parent_of(const MonitorRequest& request);

  std::shared_ptr<Monitor> monitor_;
  const int exceptions_ = std::uncaught_exceptions();  // on their way when the group was made
};

/// The monitor that a backend, as `monitored` made it, has around it; null without one.
MonitoredBackend* monitored_in(c10d::Backend& backend);

}  // namespace muster::distributed
