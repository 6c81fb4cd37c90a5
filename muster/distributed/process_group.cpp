#include "muster/distributed/process_group.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/diagnose/record/failure_note.h"
#include "muster/distributed/call/contribution.h"
#include "muster/distributed/call/sparse_allreduce.h"
#include "muster/distributed/meet/backend.h"
#include "muster/distributed/meet/choose_backend.h"
#include "muster/distributed/meet/host.h"
#include "muster/distributed/meet/store.h"
#include "muster/distributed/thread/thread_groups.h"
#include "muster/tensor/vector_math.h"

namespace muster::distributed {

struct ProcessGroup::State {
  // Declared first: destroyed last, after the group that may still use it.
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  std::string backend, reason;
  at::Device device = at::kCPU;
};

namespace {

/// A group in the making: a backend for each kind of device. The last that is added is the one that
/// the group is called after.
class GroupParts {
 public:
  GroupParts(const BackendRequest& request, const MonitorOptions& monitor, int server_rank)
      : request_(request),
        monitor_(monitor),
        server_rank_(server_rank),
        state_(std::make_shared<ProcessGroup::State>()) {
    state_->store = request.store;
    state_->group =
        c10::make_intrusive<c10d::ProcessGroup>(request.store, request.rank, request.world_size);
  }

  /// Collective. `name`: what tells it apart from other members; empty where it is alone.
  void add(const BackendEntry& entry,
           const std::vector<at::DeviceType>& kinds,
           const std::string& name = "") {
    BackendRequest request = request_;
    MonitorOptions monitor = monitor_;
    if (!name.empty()) {
      request.store = c10::make_intrusive<c10d::PrefixStore>(name, request_.store);
      monitor.group += "-" + name;
    }
    const auto backend = monitored(entry.make(request),
                                   {.store = request.store,
                                    .rank = request.rank,
                                    .world_size = request.world_size,
                                    .timeout = request.timeout,
                                    .server_rank = server_rank_,
                                    .threads = request.exchange != nullptr},
                                   monitor);
    for (const at::DeviceType kind : kinds) state_->group->setBackend(kind, entry.type, backend);
    state_->group->setDefaultBackend(entry.type);
    state_->backend = std::string(entry.name);
    state_->device = kinds[0] == at::kCPU
                         ? at::Device(at::kCPU)
                         : at::Device(kinds[0], static_cast<at::DeviceIndex>(request.local_rank));
  }

  ProcessGroup group(const std::string& reason) const {
    state_->reason = reason;
    return ProcessGroup(state_);
  }

 private:
  const BackendRequest& request_;
  const MonitorOptions& monitor_;
  const int server_rank_;
  const std::shared_ptr<ProcessGroup::State> state_;
};

std::string name_of(at::DeviceType kind) { return c10::DeviceTypeName(kind, true); }

/// The backends that were asked for. A rank that cannot use one says so to all: they end with its
/// reason, instead of waiting for it.
ProcessGroup make_named_group(const std::vector<Member>& members,
                              const BackendRequest& request,
                              const MonitorOptions& monitor,
                              int server_rank) {
  std::vector<const BackendEntry*> entries;
  for (const Member& member : members) entries.push_back(member.entry);
  const std::vector<RankOffer> ranks = exchange_offers(request, entries);
  for (const BackendEntry* entry : entries) {
    if (const std::string why = why_refused(*entry, ranks); !why.empty()) {
      throw environment_error({.refused = concat("backend ", entry->name, " cannot be used here"),
                               .rule = why,
                               .hint = "see `muster list backends`"});
    }
  }
  GroupParts parts(request, monitor, server_rank);
  const bool one = std::all_of(entries.begin(), entries.end(), [&](const BackendEntry* entry) {
    return entry == entries[0];
  });
  std::vector<at::DeviceType> kinds;
  for (const Member& member : members) {
    kinds.push_back(member.kind);
    if (!one) parts.add(*member.entry, {member.kind}, name_of(member.kind));
  }
  if (one) parts.add(*entries[0], kinds);
  return parts.group("asked for");
}

/// What `auto` is to find.
struct Wanted {
  bool cpu = true;      ///< a backend for CPU tensors
  bool device = false;  ///< one for a device's
  bool device_if_any = true;
};

Wanted wanted_by(const std::vector<Member>& members) {
  if (members.empty()) return {};
  Wanted wanted{.cpu = false, .device_if_any = false};
  for (const Member& member : members)
    (member.kind == at::kCPU ? wanted.cpu : wanted.device) = true;
  return wanted;
}

[[noreturn]] void refuse_all(const std::string& what, const std::string& why) {
  throw environment_error(
      {.refused = concat("no process-group backend for ", what, " is available"),
       .rule = why,
       .hint = "see `muster list backends`"});
}

/// For each kind of device the first choice that all ranks can make.
ProcessGroup make_auto_group(const Wanted& wanted,
                             const BackendRequest& request,
                             const MonitorOptions& monitor,
                             int server_rank) {
  const std::vector<const BackendEntry*> entries = by_preference();
  const std::vector<RankOffer> ranks = exchange_offers(request, entries);
  std::map<const BackendEntry*, std::string> unfit;
  const bool looks_for_device = wanted.device || wanted.device_if_any;
  std::string why_device;
  const BackendEntry* device =
      looks_for_device ? choose(entries, at::kCUDA, ranks, unfit, why_device) : nullptr;
  if (wanted.device && device == nullptr) refuse_all("cuda tensors", "auto" + why_device);
  GroupParts parts(request, monitor, server_rank);
  if (!wanted.cpu) {
    parts.add(*device, {at::kCUDA});
    return parts.group("auto" + why_device);
  }
  const std::string without_device = "auto" + (device == nullptr ? why_device : "");
  std::string reason = without_device;
  while (const BackendEntry* entry = choose(entries, at::kCPU, ranks, unfit, reason)) {
    try {
      parts.add(*entry, {at::kCPU}, device != nullptr ? "cpu" : "");
      if (device == nullptr) return parts.group(reason);
      parts.add(*device, {at::kCUDA});
      return parts.group(concat("auto", why_device, "; for CPU tensors ", entry->name));
    } catch (const BackendUnfit& why) {
      unfit[entry] = why.text().refused;
      reason = without_device;
    }
  }
  refuse_all("CPU tensors", reason);
}

std::shared_ptr<ThreadGroups> groups_of(const std::shared_ptr<ThreadExchange>& first) {
  return first->shared<ThreadGroups>(
      "groups", [&] { return std::make_shared<ThreadGroups>(first->world_size()); });
}

/// The work may be null where nothing is left to wait for.
void finish(const c10::intrusive_ptr<c10d::Work>& work) {
  if (work) work->wait();
}

/// Before LibTorch looks at it, in words of its own. `written`: the result goes there.
void check_for(const c10d::ProcessGroup& group,
               const std::string& call,
               const at::Tensor& tensor,
               bool written) {
  check_tensor(call, tensor);
  const auto shape = [&] { return shape_text(tensor.scalar_type(), tensor.sizes()); };
  const std::vector<at::Device> kinds = group.getDeviceTypes();
  const auto is_kind = [&](at::Device device) { return device.type() == tensor.device().type(); };
  if (std::none_of(kinds.begin(), kinds.end(), is_kind)) {
    std::vector<std::string> names;
    for (const at::Device kind : kinds) names.push_back(c10::DeviceTypeName(kind.type(), true));
    throw usage_error(
        {.refused = call,
         .rule = concat("this group moves tensors of ", join(names, " and ")),
         .value = concat(shape(), " on ", tensor.device()),
         .hint = "move the tensor, or name a backend for its kind of device (cpu:A,cuda:B)"});
  }
  if (written && at::has_internal_overlap(tensor) == at::MemOverlap::Yes)
    throw usage_error({.refused = call,
                       .rule = "each element of a result has a place of its own",
                       .value = concat(shape(), " of strides ", tensor.strides()),
                       .hint = "an expanded tensor: clone() it first"});
}

/// With its values in its own memory, and nothing else. gloo takes what lies in the gaps of a
/// tensor for elements; of a conjugated view, which is complex numbers yet to be conjugated, c10d's
/// dispatcher would hand on a copy that nobody copies back.
at::Tensor plain(const at::Tensor& tensor) {
  return tensor.resolve_conj().resolve_neg().contiguous();
}

}  // namespace

int ProcessGroup::rank() const { return state_->group->getRank(); }
int ProcessGroup::world_size() const { return state_->group->getSize(); }
const std::string& ProcessGroup::backend() const { return state_->backend; }
const std::string& ProcessGroup::backend_reason() const { return state_->reason; }
const c10::intrusive_ptr<c10d::ProcessGroup>& ProcessGroup::c10d() const { return state_->group; }
const c10::intrusive_ptr<c10d::Store>& ProcessGroup::store() const { return state_->store; }

at::Device ProcessGroup::device() const { return state_->device; }

void ProcessGroup::all_reduce(at::Tensor tensor, c10d::ReduceOp op) const {
  const bool sparse = is_sparse({tensor});
  if (sparse)
    check_sparse_allreduce({tensor}, op);
  else
    check_for(*state_->group, "all_reduce", tensor, /*written=*/true);
  c10d::AllreduceOptions options;
  options.reduceOp = std::move(op);
  options.asyncOp = false;  // see Note [Who works]
  std::vector<at::Tensor> tensors{sparse ? tensor : plain(tensor)};
  finish(state_->group->allreduce(tensors, options));
  if (!tensors[0].is_same(tensor)) tensor.copy_(tensors[0]);
}

void ProcessGroup::broadcast(at::Tensor tensor, int root) const {
  check_for(*state_->group, "broadcast", tensor, /*written=*/true);
  c10d::BroadcastOptions options;
  options.rootRank = root;
  options.asyncOp = false;
  std::vector<at::Tensor> tensors{plain(tensor)};
  finish(state_->group->broadcast(tensors, options));
  if (!tensors[0].is_same(tensor)) tensor.copy_(tensors[0]);
}

at::Tensor ProcessGroup::all_gather(const at::Tensor& tensor) const {
  check_for(*state_->group, "all_gather", tensor, /*written=*/false);
  std::vector<int64_t> sizes = tensor.sizes().vec();
  sizes.insert(sizes.begin(), world_size());
  at::Tensor all = at::empty(sizes, tensor.options());
  std::vector<at::Tensor> inputs{plain(tensor)};
  std::vector<std::vector<at::Tensor>> outputs{all.unbind(0)};
  c10d::AllgatherOptions options;
  options.asyncOp = false;
  finish(state_->group->allgather(outputs, inputs, options));
  return all;
}

void ProcessGroup::barrier() const {
  c10d::BarrierOptions options;
  options.asyncOp = false;
  finish(state_->group->barrier(options));
}

std::vector<std::string> ProcessGroup::all_gather_text(const std::string& text) const {
  const auto length = static_cast<int64_t>(text.size());
  const at::Tensor lengths = all_gather(at::full({1}, length, at::kLong).to(device())).cpu();
  at::Tensor bytes = at::zeros({std::max<int64_t>(1, lengths.max().item<int64_t>())}, at::kByte);
  std::copy(text.begin(), text.end(), bytes.data_ptr<uint8_t>());
  const at::Tensor all = all_gather(bytes.to(device())).cpu();
  std::vector<std::string> texts;
  for (int64_t other = 0; other < world_size(); ++other) {
    const uint8_t* row = all[other].data_ptr<uint8_t>();
    texts.emplace_back(row, row + lengths[other].item<int64_t>());
  }
  return texts;
}

ProcessGroup init_process_group(const GroupOptions& options, const std::optional<RankEnv>& env) {
  tensor::initialize_vector_math();
  if (env) diagnose::note_uncaught_exceptions();
  const int64_t world_size = env ? env->world_size : 1;
  const std::string& backend = options.backend;
  if (world_size == 1 && (backend == "auto" || backend == "cpu:auto" || backend == "thread")) {
    return ThreadWorld(1, options.timeout).group(0);
  }
  if (world_size > std::numeric_limits<int>::max())
    throw usage_error(
        {.refused = concat("world size ", world_size), .rule = "c10d counts ranks in 31 bits"});
  const bool named = options.backend != "auto";
  const std::vector<Member> members =
      named ? named_members(options.backend) : std::vector<Member>();
  for (const Member& member : members)
    if (member.entry != nullptr && member.entry->name == "thread")
      member.entry->make({});  // says why not, and waits for nobody
  const RankEnv place = env.value_or(RankEnv{});
  // Who was started alone talks to nobody: several such programs may run at once.
  c10::intrusive_ptr<c10d::Store> store;
  if (!env) store = c10::make_intrusive<c10d::HashStore>();
  const BackendRequest request{.store = env ? connect_store(place, options.timeout) : store,
                               .rank = static_cast<int>(place.rank),
                               .world_size = static_cast<int>(place.world_size),
                               .local_rank = static_cast<int>(place.local_rank),
                               .timeout = options.timeout,
                               .host = address_towards(place.master_addr),
                               .host_identity = host_identity()};
  const MonitorOptions monitor = with_environment(options.monitor);
  const int server_rank = place.use_agent_store ? -1 : 0;
  const bool finds = !named || members[0].entry == nullptr;
  return finds ? make_auto_group(wanted_by(members), request, monitor, server_rank)
               : make_named_group(members, request, monitor, server_rank);
}

ThreadWorld::ThreadWorld(int world_size,
                         std::chrono::milliseconds timeout,
                         std::string backend,
                         std::vector<std::string> hosts,
                         MonitorOptions monitor)
    : store_(c10::make_intrusive<c10d::HashStore>()),
      timeout_(timeout),
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
  return parts.group(backend_ == "thread" ? "the ranks are threads of one process" : "asked for");
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
