#include "muster/parallel/process_group.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/parallel/backend.h"
#include "muster/parallel/store.h"
#include "muster/parallel/thread_board.h"
#include "muster/tensor/vector_math.h"

namespace muster::parallel {

struct ProcessGroup::State {
  c10::intrusive_ptr<c10d::Store>
      store;  // declared first: destroyed last, after the group that may still use it
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  std::string backend;
  at::Device device = at::kCPU;
};

namespace {

ProcessGroup make_group(const BackendEntry& entry, const BackendRequest& request) {
  auto state = std::make_shared<ProcessGroup::State>();
  state->store = request.store;
  state->backend = std::string(entry.name);
  state->group =
      c10::make_intrusive<c10d::ProcessGroup>(request.store, request.rank, request.world_size);
  const auto backend = entry.make(request);
  if (entry.moves_cpu) state->group->setBackend(c10::DeviceType::CPU, entry.type, backend);
  if (entry.moves_cuda) state->group->setBackend(c10::DeviceType::CUDA, entry.type, backend);
  state->group->setDefaultBackend(entry.type);
  if (!entry.moves_cpu)
    state->device = at::Device(at::kCUDA, static_cast<at::DeviceIndex>(request.local_rank));
  return ProcessGroup(state);
}

const BackendEntry& choose_backend(const std::string& name) {
  if (name != "auto") {
    const BackendEntry& entry = backends().at(name);
    if (const std::string why = entry.available(); !why.empty()) {
      throw environment_error({.refused = concat("backend ", name, " cannot be used here"),
                               .rule = why,
                               .hint = "see `muster list backends`"});
    }
    return entry;
  }
  const BackendEntry* best = nullptr;
  for (const BackendEntry* entry : backends()) {
    if (entry->preference < 0 || (best != nullptr && entry->preference <= best->preference))
      continue;
    if (entry->available().empty()) best = entry;
  }
  if (best == nullptr)
    throw environment_error(
        {.refused = "no process-group backend is available", .hint = "see `muster list backends`"});
  return *best;
}

}  // namespace

int ProcessGroup::rank() const { return state_->group->getRank(); }
int ProcessGroup::world_size() const { return state_->group->getSize(); }
const std::string& ProcessGroup::backend() const { return state_->backend; }
const c10::intrusive_ptr<c10d::ProcessGroup>& ProcessGroup::c10d() const { return state_->group; }
const c10::intrusive_ptr<c10d::Store>& ProcessGroup::store() const { return state_->store; }

at::Device ProcessGroup::device() const { return state_->device; }

void ProcessGroup::all_reduce(at::Tensor tensor, c10d::ReduceOp op) const {
  c10d::AllreduceOptions options;
  options.reduceOp = std::move(op);
  std::vector<at::Tensor> tensors{std::move(tensor)};
  state_->group->allreduce(tensors, options)->wait();
}

void ProcessGroup::broadcast(at::Tensor tensor, int root) const {
  c10d::BroadcastOptions options;
  options.rootRank = root;
  std::vector<at::Tensor> tensors{std::move(tensor)};
  state_->group->broadcast(tensors, options)->wait();
}

at::Tensor ProcessGroup::all_gather(const at::Tensor& tensor) const {
  std::vector<int64_t> sizes = tensor.sizes().vec();
  sizes.insert(sizes.begin(), world_size());
  at::Tensor all = at::empty(sizes, tensor.options());
  std::vector<at::Tensor> inputs{tensor.contiguous()};
  std::vector<std::vector<at::Tensor>> outputs{all.unbind(0)};
  state_->group->allgather(outputs, inputs)->wait();
  return all;
}

void ProcessGroup::barrier() const { state_->group->barrier()->wait(); }

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
  tensor::settle_vector_math();
  const int64_t world_size = env ? env->world_size : 1;
  if (world_size == 1 && (options.backend == "auto" || options.backend == "thread")) {
    return ThreadWorld(1, options.timeout).group(0);
  }
  const BackendEntry& entry = choose_backend(options.backend);
  if (world_size > std::numeric_limits<int>::max())
    throw usage_error(
        {.refused = concat("world size ", world_size), .rule = "c10d counts ranks in 31 bits"});
  const RankEnv place = env.value_or(RankEnv{});
  const auto store = connect_store(place, options.timeout);
  return make_group(entry,
                    {.store = store,
                     .rank = static_cast<int>(place.rank),
                     .world_size = static_cast<int>(place.world_size),
                     .local_rank = static_cast<int>(place.local_rank),
                     .timeout = options.timeout,
                     .host = address_towards(place.master_addr)});
}

ThreadWorld::ThreadWorld(int world_size, std::chrono::milliseconds timeout, std::string backend)
    : store_(c10::make_intrusive<c10d::HashStore>()),
      timeout_(timeout),
      backend_(std::move(backend)) {
  tensor::settle_vector_math();
  if (world_size < 1) {
    throw usage_error({.refused = "world size",
                       .rule = "a group has at least one rank",
                       .value = std::to_string(world_size)});
  }
  board_ = std::make_shared<ThreadBoard>(world_size, timeout);
  store_->setTimeout(timeout);
}

ThreadWorld::~ThreadWorld() = default;

ProcessGroup ThreadWorld::group(int rank) const {
  if (rank < 0 || rank >= board_->world_size()) {
    throw usage_error({.refused = concat("rank ", rank),
                       .rule = concat("ranks are 0 to ", board_->world_size() - 1)});
  }
  return make_group(backends().at(backend_),
                    {.store = store_,
                     .rank = rank,
                     .world_size = board_->world_size(),
                     .timeout = timeout_,
                     .host = "127.0.0.1",
                     .board = board_});
}

void ThreadWorld::leave(int rank, const std::string& why) const { board_->leave(rank, why); }

}  // namespace muster::parallel
