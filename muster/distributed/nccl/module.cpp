// libmuster_nccl.so: the only code that needs CUDA and NCCL headers. backends/nccl.cpp opens it
// where a device is.
#include "muster/distributed/nccl/module.h"

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

extern "C" const muster::distributed::NcclStamp* muster_nccl_stamp() {
  static const muster::distributed::NcclStamp stamp;
  return &stamp;
}

extern "C" c10d::Backend* muster_make_nccl(const muster::distributed::BackendRequest& request) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = request.timeout;
  auto backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(
      request.store, request.rank, request.world_size, options);
  // Bound to its device from the start: the communicator is made for it, and barriers need no
  // guess.
  backend->setBoundDeviceId(
      at::Device(at::kCUDA, static_cast<at::DeviceIndex>(request.local_rank)));
  return backend.release();
}
