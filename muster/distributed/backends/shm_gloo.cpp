// Several hosts with several ranks each. See Note [Two levels].
#include <algorithm>

#include "muster/base/text.h"
#include "muster/distributed/meet/backend.h"
#include "muster/distributed/meet/host.h"
#include "muster/distributed/two_level/two_level.h"

namespace muster::distributed {
namespace {

c10::intrusive_ptr<c10d::Backend> make_shm_gloo(const BackendRequest& request) {
  const std::string mine = request.host_identity.empty() ? host_identity() : request.host_identity;
  const auto hosts = hosts_of(
      exchange_texts(*request.store, "two_level/hosts", request.rank, request.world_size, mine));
  const BackendEntry& inside = backends().at("shm");
  if (hosts.size() == 1) return inside.make(request);
  // Parts of a group may have a host for each of their ranks.
  if (hosts.size() == static_cast<size_t>(request.world_size))
    return backends().at("gloo").make(request);
  return c10::make_intrusive<TwoLevelBackend>(request, hosts, inside, backends().at("gloo"));
}

std::string shm_gloo_unsuitable(const std::vector<RankOffer>& ranks) {
  std::vector<std::string> identities;
  for (const RankOffer& rank : ranks) identities.push_back(rank.host_identity);
  const auto hosts = hosts_of(identities);
  if (hosts.size() == 1) return "all ranks are on one host";
  const bool shared = std::any_of(hosts.begin(), hosts.end(), [](const auto& ranks_of_host) {
    return ranks_of_host.size() > 1;
  });
  return shared ? "" : "every rank has a host of its own";
}

std::string shm_gloo_available() { return backends().at("shm").available(); }

}  // namespace

extern constinit const BackendEntry shm_gloo_entry{
    .name = "shm+gloo",
    .help = "several hosts: shared memory inside each, gloo between their first ranks; CPU tensors",
    .preference = 15,
    .type = c10d::ProcessGroup::BackendType::CUSTOM,
    .available = &shm_gloo_available,
    .make = &make_shm_gloo,
    .moves_cpu = true,
    .moves_cuda = false,
    .unsuitable = &shm_gloo_unsuitable,
    .names_culprits = true};

}  // namespace muster::distributed
