// Any backend, with its operations recorded and watched. See Note [Naming the culprit].
#pragma once

#include <memory>

#include "muster/distributed/watch/decorated_backend.h"
#include "muster/distributed/watch/watch_core.h"

namespace muster::distributed {

class WatchedBackend : public DecoratedBackend {
 public:
  WatchedBackend(c10::intrusive_ptr<c10d::Backend> inner,
                 const WatchRequest& request,
                 const WatchOptions& options);
  /// Does not wait for operations that hang in a group that has failed.
  ~WatchedBackend() override;

  const std::shared_ptr<diagnose::FlightRecorder>& recorder() const { return watch_->recorder(); }
  void setTimeout(std::chrono::milliseconds timeout) override;

 protected:
  WorkPtr around(const OpCall& call, Posting& posting) override;

 private:
  std::shared_ptr<Watch> watch_;
};

}  // namespace muster::distributed
