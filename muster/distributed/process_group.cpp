#include "muster/distributed/process_group.h"

#include <algorithm>
#include <utility>

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/call/contribution.h"
#include "muster/distributed/call/sparse_allreduce.h"
#include "muster/distributed/group_parts.h"
#include "muster/distributed/meet/choose_backend.h"
#include "muster/distributed/meet/host.h"
#include "muster/distributed/thread/thread_groups.h"
#include "muster/tensor/vector_math.h"

namespace muster::distributed {
namespace {

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
