#include "muster/distributed/process_group.h"

#include <utility>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/diagnose/record/failure_note.h"
#include "muster/distributed/group_parts.h"
#include "muster/distributed/meet/choose_backend.h"
#include "muster/distributed/meet/host.h"
#include "muster/distributed/meet/timeout.h"
#include "muster/distributed/own_failure.h"
#include "muster/distributed/thread/thread_groups.h"
#include "muster/distributed/thread/told_failure.h"
#include "muster/tensor/vector_math.h"

namespace muster::distributed {
namespace {

std::shared_ptr<ThreadGroups> groups_of(const std::shared_ptr<ThreadExchange>& first) {
  return first->shared<ThreadGroups>(
      "groups", [&] { return std::make_shared<ThreadGroups>(first->world_size()); });
}

}  // namespace

int ProcessGroup::rank() const { return state_->group->getRank(); }
int ProcessGroup::world_size() const { return state_->group->getSize(); }
const std::string& ProcessGroup::backend() const { return state_->backend; }
const BackendEntry& ProcessGroup::backend_entry() const { return *state_->entry; }
const std::string& ProcessGroup::backend_reason() const { return state_->reason; }
const c10::intrusive_ptr<c10d::ProcessGroup>& ProcessGroup::c10d() const { return state_->group; }
const c10::intrusive_ptr<c10d::Store>& ProcessGroup::store() const { return state_->store; }

at::Device ProcessGroup::device() const { return state_->device; }

at::Device ProcessGroup::host_device() const {
  for (const at::Device kind : c10d()->getDeviceTypes())
    if (kind.is_cpu()) return at::kCPU;
  return device();
}

std::chrono::milliseconds ProcessGroup::timeout() const { return state_->made_from.timeout; }

void ProcessGroup::set_timeout(std::chrono::milliseconds timeout) const {
  const auto bounded = bounded_timeout(timeout, "the timeout of a group");
  state_->made_from.timeout = bounded;
  for (const at::Device kind : c10d()->getDeviceTypes())
    c10d()->getBackend(kind.type())->setTimeout(bounded);
}

void ProcessGroup::leave(const std::string& why) const {
  record_failure(*this, why);
  if (state_->made_from.exchange) state_->made_from.exchange->leave(rank(), why);
}

void ProcessGroup::note_told_failure(int rank, const std::string& what) const {
  if (state_->made_from.exchange)
    told_failure_of_thread() = what;
  else
    diagnose::note_failure_of_peers(what, {world_rank(rank)});
}

ThreadWorld::ThreadWorld(int world_size,
                         std::chrono::milliseconds timeout,
                         std::string backend,
                         std::vector<std::string> hosts,
                         MonitorOptions monitor)
    : store_(c10::make_intrusive<c10d::HashStore>()),
      timeout_(bounded_timeout(timeout, "the timeout of thread ranks")),
      backend_(std::move(backend)),
      hosts_(std::move(hosts)),
      monitor_(std::move(monitor)) {
  tensor::initialize_vector_math();
  if (world_size < 1) {
    throw usage_error({.refused = "world size",
                       .rule = "a group has at least one rank",
                       .value = std::to_string(world_size)});
  }
  if (!hosts_.empty() && hosts_.size() != static_cast<size_t>(world_size)) {
    throw usage_error({.refused = "hosts of a thread world",
                       .rule = concat("one for each of ", world_size, " ranks"),
                       .value = std::to_string(hosts_.size())});
  }
  exchange_ = std::make_shared<ThreadExchange>(world_size);
  store_->setTimeout(timeout);
}

ThreadWorld::~ThreadWorld() = default;

int ThreadWorld::world_size() const { return exchange_->world_size(); }

ProcessGroup ThreadWorld::group(int rank) const {
  if (rank < 0 || rank >= exchange_->world_size()) {
    throw usage_error({.refused = concat("rank ", rank),
                       .rule = concat("ranks are 0 to ", exchange_->world_size() - 1)});
  }
  const auto [exchange, store] = groups_of(exchange_)->next(rank, {exchange_, store_});
  const BackendRequest request{.store = store,
                               .rank = rank,
                               .world_size = exchange_->world_size(),
                               .timeout = timeout_,
                               .host = "127.0.0.1",
                               .exchange = exchange,
                               .host_identity = hosts_.empty() ? host_identity() : hosts_[rank]};
  GroupParts parts(request, monitor_, -1);
  const BackendEntry& entry = backends().at(backend_);
  parts.add(entry, kinds_of(entry));
  return parts.group(entry.for_threads_only ? "the ranks are threads of one process" : "asked for");
}

void ThreadWorld::leave(int rank, const std::string& why) const {
  groups_of(exchange_)->leave(rank, why, *exchange_);
}

std::shared_ptr<const diagnose::FlightRecorder> flight_recorder(const ProcessGroup& group) {
  return recorder_of(*group.c10d()->getBackend(group.device().type()));
}

void mark_step(const ProcessGroup& group, int64_t step) {
  if (const auto recorder = recorder_of(*group.c10d()->getBackend(group.device().type())))
    recorder->set_step(step);
}

}  // namespace muster::distributed
