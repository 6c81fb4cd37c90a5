// CUDA tensors by NVIDIA's NCCL, through the optional module libmuster_nccl.so. See
// muster/distributed/nccl/.
#include <string>
#include <utility>

#include <c10/core/DeviceGuard.h>

#include "muster/base/error.h"
#include "muster/base/rank_env.h"
#include "muster/base/text.h"
#include "muster/distributed/meet/backend.h"
#include "muster/distributed/nccl/module.h"
#include "muster/tensor/device/cuda.h"

namespace muster::distributed {
namespace {

const NcclLibrary& module() {
  static const NcclLibrary opened = [] {
    std::string no_device = tensor::load_cuda();
    if (!no_device.empty()) return NcclLibrary{.make = nullptr, .why_not = std::move(no_device)};
    return open_nccl(kNcclModule);
  }();
  return opened;
}

std::string nccl_available() { return module().why_not; }

std::string refuses(const BackendRequest& request) {
  const auto devices =
      static_cast<int>(c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA)->deviceCount());
  if (request.local_rank < devices) return "";
  return concat("local rank ", request.local_rank, " has no device of its own among ", devices);
}

/// NCCL counts a device of two ranks as a mistake, unless it is told otherwise: by this variable, which NCCL
/// 2.30 reads and 2.28 does not.
bool may_share_devices() {
  return process_environment("NCCL_MULTI_RANK_GPU_ENABLE").value_or("0") == "1";
}

std::string share_devices(const std::vector<RankOffer>& ranks) {
  if (may_share_devices()) return "";
  for (size_t a = 0; a < ranks.size(); ++a) {
    for (size_t b = a + 1; b < ranks.size(); ++b) {
      const bool same = ranks[a].host_identity == ranks[b].host_identity &&
                        ranks[a].device == ranks[b].device && !ranks[a].device.empty();
      if (same) return concat("ranks ", a, " and ", b, " share ", ranks[a].device);
    }
  }
  return "";
}

c10::intrusive_ptr<c10d::Backend> make_nccl(const BackendRequest& request) {
  const auto devices = c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA)->deviceCount();
  if (request.local_rank >= devices) {
    throw environment_error(
        {.refused = concat("rank ", request.rank, " finds no device of its own"),
         .rule = "nccl gives each rank of a machine one device",
         .value = concat("local rank ", request.local_rank, ", ", int(devices), " devices"),
         .hint =
             "start fewer ranks per machine (--nproc-per-node gpu) or choose the backend gloo"});
  }
  try {
    return c10::intrusive_ptr<c10d::Backend>::reclaim(module().make(request));
  } catch (const c10::Error& error) {
    throw environment_error({.refused = "nccl could not connect the ranks",
                             .rule = error.what_without_backtrace(),
                             .hint = "NCCL_DEBUG=INFO shows what NCCL tried"});
  }
}

}  // namespace

extern constinit const BackendEntry nccl_entry{
    .name = "nccl",
    .help = "one NVIDIA device per process, one or many hosts; CUDA tensors",
    .preference = 30,
    .type = c10d::ProcessGroup::BackendType::NCCL,
    .available = &nccl_available,
    .make = &make_nccl,
    .moves_cpu = false,
    .moves_cuda = true,
    .unsuitable = &share_devices,
    .refuses = &refuses,
    .sends_wait = true};

}  // namespace muster::distributed
