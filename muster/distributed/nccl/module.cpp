// libmuster_nccl.so: the only code that needs CUDA and NCCL headers. backends/nccl.cpp opens it
// where a device is.
#include "muster/distributed/nccl/module.h"

#include <atomic>
#include <exception>

#include <nccl.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

namespace {

/// LibTorch's own, ended in order. Its destructor aborts the communicator, and warns, where nobody shut it
/// down: a peer that is still at its part of the last operation could lose it.
class Nccl final : public c10d::ProcessGroupNCCL {
 public:
  using ProcessGroupNCCL::ProcessGroupNCCL;

  /// Waits for what this rank has posted. The monitor aborts a group that has failed, and nothing is
  /// waited for then.
  ~Nccl() override {
    if (has_ended_) return;
    try {
      ProcessGroupNCCL::shutdown();
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): its peers are gone
    }
  }

  void shutdown() override {
    has_ended_ = true;
    ProcessGroupNCCL::shutdown();
  }

  void abort() override {
    has_ended_ = true;
    ProcessGroupNCCL::abort();
  }

 private:
  std::atomic<bool> has_ended_{false};  // the monitor's thread aborts
};

}  // namespace

extern "C" const muster::distributed::NcclStamp* muster_nccl_stamp() {
  static const muster::distributed::NcclStamp stamp{.nccl_headers = NCCL_VERSION_CODE};
  return &stamp;
}

extern "C" c10d::Backend* muster_make_nccl(const muster::distributed::BackendRequest& request) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = request.timeout;
  return c10::make_intrusive<Nccl>(request.store, request.rank, request.world_size, options)
      .release();
}
