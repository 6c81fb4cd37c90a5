#include "muster/memory/allocator/operators.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include <ATen/SequenceNumber.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include "muster/memory/allocator/cpu_memory.h"
#include "muster/memory/allocator/names.h"
#include "muster/memory/allocator/thread_state.h"

namespace muster::memory {
namespace {

constexpr auto kLoose = std::memory_order_relaxed;
constexpr uint32_t kCountedScopes = 4096;

/// Where a node's forward ran.
struct Place {
  uint32_t scope = 0, layer = 0, iteration = 0;
};

/// By thread and sequence number: the last ones. A place that is read while another thread writes
/// it is passed over, since its key no longer fits.
class PlaceTable {
 public:
  void put(uint64_t thread, uint64_t sequence, const Place& place) {
    Row& row = row_of(thread, sequence);
    row.key.store(0, kLoose);
    row.place.store(packed(place), std::memory_order_release);
    row.key.store(key_of(thread, sequence), std::memory_order_release);
  }
  bool find(uint64_t thread, uint64_t sequence, Place& place) {
    const Row& row = row_of(thread, sequence);
    const uint64_t key = key_of(thread, sequence);
    if (row.key.load(std::memory_order_acquire) != key) return false;
    const uint64_t found = row.place.load(std::memory_order_acquire);
    if (row.key.load(std::memory_order_acquire) != key) return false;
    place = {.scope = static_cast<uint32_t>(found >> 44),
             .layer = static_cast<uint32_t>(found >> 32) & (kMostLayers - 1),
             .iteration = static_cast<uint32_t>(found)};
    return true;
  }

 private:
  struct Row {
    std::atomic<uint64_t> key{0}, place{0};
  };
  static constexpr size_t kRows = size_t{1} << 16;

  // 20 bits of scope (kMostNames), 12 of layer, 32 of iteration.
  static uint64_t packed(const Place& place) {
    return uint64_t{place.scope} << 44 | uint64_t{place.layer} << 32 | place.iteration;
  }
  static uint64_t key_of(uint64_t thread, uint64_t sequence) {
    return (thread + 1) << 44 ^ (sequence + 1);
  }
  Row& row_of(uint64_t thread, uint64_t sequence) {
    return rows_[(sequence + thread * 0x9e3779b1) % kRows];
  }

  std::array<Row, kRows> rows_;
};

struct Counted {
  PlaceTable places;
  std::atomic<const LayerMap*> layers{nullptr};
  std::atomic<int64_t> ran{0}, ran_of_earlier{0};
  std::array<std::atomic<int64_t>, kCountedScopes> ran_of_scope{};
  std::mutex mutex;                                          // of what follows
  std::map<std::pair<uint32_t, uint32_t>, int64_t> chained;  // by scope and operator
  at::CallbackHandle names = at::INVALID_CALLBACK_HANDLE, with_inputs = names, backward = names;
};

Counted& counted() {
  static auto* const one = new Counted;
  return *one;
}

/// What a node of a backward changes of its thread; nodes nest where a backward calls another one.
struct OuterState {
  uint32_t scope, op, layer;
  bool in_backward;
};
thread_local std::vector<OuterState> outer_states;

/// The first sequence number of this thread's iteration.
void follow_iteration(ThreadState& thread, uint32_t iteration) {
  if (thread.seen_iteration == iteration && thread.first_sequence != 0) return;
  thread.seen_iteration = iteration;
  thread.layer = 0;
  thread.first_sequence = at::sequence_number::peek() + 1;  // +1: 0 is "not yet"
}

bool of_earlier_iteration(const ThreadState& thread, const torch::autograd::Node& node) {
  const uint64_t sequence = node.sequence_nr();
  if (node.thread_id() == at::RecordFunction::currentThreadId())
    return sequence + 1 < thread.first_sequence;
  Place place;
  return counted().places.find(node.thread_id(), sequence, place) &&
         place.iteration < thread.seen_iteration;
}

void look_at(const at::Tensor& tensor, ThreadState& thread, const LayerMap* layers) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  if (layers != nullptr) {
    if (const auto found = layers->find(storage); found != layers->end())
      thread.layer = found->second;
  }
  if (Block* block = block_of(storage->data_ptr()); block != nullptr)
    std::atomic_ref<uint32_t>(block->last_op).store(thread.op, kLoose);
  // Not grad_fn(), which makes nodes for views that were changed in place.
  const auto* node = torch::autograd::impl::grad_fn_unsafe(tensor);
  if (node == nullptr || !of_earlier_iteration(thread, *node)) return;
  const std::lock_guard lock(counted().mutex);
  ++counted().chained[{thread.scope, thread.op}];
}

void look_at_inputs(const at::RecordFunction& function, ThreadState& thread) {
  const LayerMap* const layers = counted().layers.load(std::memory_order_acquire);
  for (const c10::IValue& input : function.inputs()) {
    if (input.isTensor()) {
      look_at(input.toTensor(), thread, layers);
    } else if (input.isTensorList()) {
      const c10::List<at::Tensor> list = input.toTensorList();
      for (size_t i = 0; i < list.size(); ++i) look_at(list.get(i), thread, layers);
    }
  }
}

std::unique_ptr<at::ObserverContext> begin_operator(const at::RecordFunction& function) {
  ThreadState& thread = this_thread_state;
  const bool graph = function.seqNr() >= 0;
  if (thread.op_depth++ == 0) {
    thread.op = operator_id(function.name());
    thread.grad_mode = graph;
    follow_iteration(thread, memory_iteration());
    look_at_inputs(function, thread);
  }
  if (graph) {
    counted().places.put(at::RecordFunction::currentThreadId(),
                         static_cast<uint64_t>(function.seqNr()),
                         {thread.scope, thread.layer, memory_iteration()});
  }
  return nullptr;
}

void end_operator(const at::RecordFunction&, at::ObserverContext*) {
  ThreadState& thread = this_thread_state;
  if (--thread.op_depth > 0) return;
  thread.op_depth = 0;
  thread.op = 0;
  thread.grad_mode = false;
}

std::unique_ptr<at::ObserverContext> begin_node(const at::RecordFunction& function) {
  ThreadState& thread = this_thread_state;
  outer_states.push_back({thread.scope, thread.op, thread.layer, thread.in_backward});
  ++thread.op_depth;
  thread.op = operator_id(function.name());
  thread.in_backward = true;
  follow_iteration(thread, memory_iteration());
  Counted& all = counted();
  all.ran.fetch_add(1, kLoose);
  Place place;
  if (function.seqNr() < 0 ||
      !all.places.find(function.forwardThreadId(), static_cast<uint64_t>(function.seqNr()), place))
    return nullptr;
  thread.scope = place.scope;
  thread.layer = place.layer;
  if (place.iteration < memory_iteration()) all.ran_of_earlier.fetch_add(1, kLoose);
  if (place.scope < kCountedScopes) all.ran_of_scope[place.scope].fetch_add(1, kLoose);
  return nullptr;
}

void end_node(const at::RecordFunction&, at::ObserverContext*) {
  ThreadState& thread = this_thread_state;
  if (outer_states.empty()) return;
  const OuterState outer = outer_states.back();
  outer_states.pop_back();
  --thread.op_depth;
  thread.scope = outer.scope;
  thread.op = outer.op;
  thread.layer = outer_states.empty() ? 0 : outer.layer;  // behind a backward no layer runs
  thread.in_backward = outer.in_backward;
}

std::unique_ptr<at::ObserverContext> begin_name(const at::RecordFunction& function) {
  ThreadState& thread = this_thread_state;
  if (thread.op_depth++ == 0) {
    thread.op = operator_id(function.name());
    thread.grad_mode = function.seqNr() >= 0;
  }
  return nullptr;
}

/// Those that are not wanted are taken away: for each node of a backward LibTorch goes through all
/// that are there. Operators that run keep the two functions that they have begun with.
void turn(at::CallbackHandle& handle, bool on, const at::RecordFunctionCallback& callback) {
  const bool is_on = handle != at::INVALID_CALLBACK_HANDLE;
  if (on && !is_on) handle = at::addGlobalCallback(callback);
  if (is_on && !on) at::removeCallback(std::exchange(handle, at::INVALID_CALLBACK_HANDLE));
}

}  // namespace

void watch_operators(Level level, bool names) {
  using at::RecordFunctionCallback;
  using at::RecordScope;
  Counted& all = counted();
  turn(all.names,
       level == Level::kTags && names,
       RecordFunctionCallback(&begin_name, &end_operator).scopes({RecordScope::FUNCTION}));
  turn(all.with_inputs,
       level == Level::kLayers,
       RecordFunctionCallback(&begin_operator, &end_operator)
           .needsInputs(true)
           .scopes({RecordScope::FUNCTION}));
  turn(all.backward,
       level == Level::kLayers,
       RecordFunctionCallback(&begin_node, &end_node).scopes({RecordScope::BACKWARD_FUNCTION}));
}

void set_layers(LayerMap layers) {
  // Threads may be looking into the one before: it stays.
  counted().layers.store(new LayerMap(std::move(layers)), std::memory_order_release);
}

std::vector<ChainedOperator> take_chained_operators() {
  std::map<std::pair<uint32_t, uint32_t>, int64_t> taken;
  {
    const std::lock_guard lock(counted().mutex);
    taken.swap(counted().chained);
  }
  std::vector<ChainedOperator> chained;
  chained.reserve(taken.size());
  for (const auto& [place, count] : taken)
    chained.push_back({name_of(place.first), name_of(place.second), count});
  std::ranges::stable_sort(chained, [](const auto& a, const auto& b) { return a.count > b.count; });
  return chained;
}

BackwardNodes take_backward_nodes() {
  return {.ran = counted().ran.exchange(0),
          .of_earlier_iterations = counted().ran_of_earlier.exchange(0)};
}

std::vector<int64_t> nodes_run_by_scope() {
  std::vector<int64_t> ran;
  ran.reserve(kCountedScopes);
  for (const auto& one : counted().ran_of_scope) ran.push_back(one.load(kLoose));
  return ran;
}

}  // namespace muster::memory
