// Processes over TCP by LibTorch's Gloo. The only file that includes ProcessGroupGloo.hpp: the
// wheel ships no gloo headers, and Debian's are from 2022, so gloo types are used opaquely here:
// nothing of gloo is constructed or derived by us.
#include <cstdlib>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "muster/base/error.h"
#include "muster/distributed/meet/backend.h"

namespace muster::distributed {
namespace {

using Gloo = c10d::ProcessGroupGloo;

c10::intrusive_ptr<c10d::Backend> make_gloo(const BackendRequest& request) {
  try {
    auto options = Gloo::Options::create(request.timeout);
    const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
    // Named explicitly: the default looks the host's own name up, which can take seconds or give an
    // unreachable address.
    options->devices.push_back(interface != nullptr ? Gloo::createDeviceForInterface(interface)
                                                    : Gloo::createDeviceForHostname(request.host));
    return c10::make_intrusive<Gloo>(request.store, request.rank, request.world_size, options);
  } catch (const c10::Error& error) {
    throw environment_error({.refused = "gloo could not connect the ranks",
                             .rule = error.what_without_backtrace(),
                             .hint = "check that all ranks were started and can reach " +
                                     request.host + " (GLOO_SOCKET_IFNAME names an interface)"});
  }
}

}  // namespace

extern constinit const BackendEntry gloo_entry{
    "gloo",
    "processes of one or many hosts over TCP; CPU tensors",
    10,
    c10d::ProcessGroup::BackendType::GLOO,
    [] { return std::string(); },
    &make_gloo,
    true,
    false,
    nullptr,
    nullptr,
    /*needs_no_buckets=*/false,
    /*names_culprits=*/false,
    /*completes_futures=*/true};

}  // namespace muster::distributed
