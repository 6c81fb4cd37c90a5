#include "muster/memory/allocator/nodes.h"

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <ATen/SequenceNumber.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/nn/module.h>

#include "muster/memory/allocator/cpu_memory.h"
#include "muster/memory/allocator/thread_state.h"
#include "muster/tensor/engine_in_front.h"

namespace muster::memory {
namespace {

using torch::autograd::AnomalyMetadata;
using torch::autograd::AnomalyMode;
using torch::autograd::Engine;

/// How this LibTorch hands over the node that made a node: by a pointer of c10's, or of the
/// standard library's.
template <class>
struct ParentNodeOf;
template <class Node>
struct ParentNodeOf<void (AnomalyMetadata::*)(Node)> {
  using Type = Node;
};
using ParentNode = ParentNodeOf<decltype(&AnomalyMetadata::assign_parent)>::Type;

class NodeTag;

constexpr size_t kMostThreadsKept = 4;  // of a scope, in each shard

/// The tags of live nodes, in lists by thread.
struct NodeLists {
  struct alignas(64) Shard {
    std::mutex mutex;
    NodeTag* first = nullptr;
    std::map<uint32_t, EvaluationNodes> evaluation = {};  // by scope
  };
  static constexpr size_t kShards = 16;
  std::array<Shard, kShards> shards;
  std::atomic<int64_t> count{0};
  std::atomic<const torch::nn::Module*> module{nullptr};
};

NodeLists& node_lists() {
  static auto* const lists = new NodeLists;
  return *lists;
}

/// Lives and dies with its node.
class NodeTag final : public AnomalyMetadata {
 public:
  NodeTag() = default;
  ~NodeTag() override {
    if (!listed_) return;
    NodeLists& lists = node_lists();
    NodeLists::Shard& shard = lists.shards[facts_.thread % NodeLists::kShards];
    const std::lock_guard lock(shard.mutex);
    if (before_ != nullptr) before_->after_ = after_;
    if (after_ != nullptr) after_->before_ = before_;
    if (shard.first == this) shard.first = after_;
    lists.count.fetch_sub(1, std::memory_order_relaxed);
  }
  NodeTag(const NodeTag&) = delete;
  NodeTag& operator=(const NodeTag&) = delete;

  /// Called by the node's constructor, in the thread that makes it, its number drawn.
  void store_stack() override {
    if (listed_) return;
    NodeLists& lists = node_lists();
    const ThreadState& thread = this_thread_state;
    const auto* const module = lists.module.load(std::memory_order_acquire);
    facts_ = {.scope = thread.scope,
              .op = thread.op,
              .iteration = memory_iteration(),
              .thread = this_thread_number(),
              .in_backward = thread.in_backward || torch::autograd::get_current_node() != nullptr,
              .in_evaluation = module != nullptr && !module->is_training(),
              .sequence = at::sequence_number::peek()};
    NodeLists::Shard& shard = lists.shards[facts_.thread % NodeLists::kShards];
    const std::lock_guard lock(shard.mutex);
    if (facts_.in_evaluation) {
      EvaluationNodes& count = shard.evaluation[facts_.scope];
      ++count.made;
      if (count.threads.size() < kMostThreadsKept) count.threads.insert(facts_.thread);
    }
    after_ = shard.first;
    if (shard.first != nullptr) shard.first->before_ = this;
    shard.first = this;
    listed_ = true;
    lists.count.fetch_add(1, std::memory_order_relaxed);
  }
  void print_stack(const std::string&) override {}
  void assign_parent(ParentNode) override {}  // it would keep that node alive

  const LiveNode& facts() const { return facts_; }
  const NodeTag* after() const { return after_; }

 private:
  NodeTag* before_ = nullptr;
  NodeTag* after_ = nullptr;
  LiveNode facts_;
  bool listed_ = false;
};

std::atomic<int> open_censuses{0};

class CountingEngine final : public tensor::EngineInFront {
 public:
  using EngineInFront::EngineInFront;
  std::unique_ptr<AnomalyMetadata> make_anomaly_metadata() override {
    if (open_censuses.load(std::memory_order_relaxed) > 0) return std::make_unique<NodeTag>();
    return EngineInFront::make_anomaly_metadata();
  }
};

std::atomic<CountingEngine*> counting_engine{nullptr};

Engine& counting_engine_stub() { return *counting_engine.load(std::memory_order_acquire); }

struct AnomalyBefore {
  std::mutex mutex;
  bool enabled = false, checks_nan = true;
};

AnomalyBefore& anomaly_before() {
  static auto* const before = new AnomalyBefore;
  return *before;
}

}  // namespace

NodeCensus::NodeCensus() {
  AnomalyBefore& before = anomaly_before();
  const std::lock_guard lock(before.mutex);
  Engine& there = Engine::get_default_engine();
  if (&there != counting_engine.load()) {  // engines are never freed
    counting_engine.store(new CountingEngine(there), std::memory_order_release);
    torch::autograd::set_default_engine_stub(&counting_engine_stub);
  }
  if (open_censuses.fetch_add(1) > 0) return;
  before.enabled = AnomalyMode::is_enabled();
  before.checks_nan = AnomalyMode::should_check_nan();
  AnomalyMode::set_enabled(true, before.enabled && before.checks_nan);
}

NodeCensus::~NodeCensus() {
  AnomalyBefore& before = anomaly_before();
  const std::lock_guard lock(before.mutex);
  if (open_censuses.fetch_sub(1) > 1) return;
  AnomalyMode::set_enabled(before.enabled, before.checks_nan);
}

std::vector<LiveNode> live_nodes() {
  std::vector<LiveNode> nodes;
  nodes.reserve(static_cast<size_t>(live_node_count()) + 1024);
  for (NodeLists::Shard& shard : node_lists().shards) {
    const std::lock_guard lock(shard.mutex);
    for (const NodeTag* tag = shard.first; tag != nullptr; tag = tag->after())
      nodes.push_back(tag->facts());
  }
  return nodes;
}

int64_t live_node_count() { return node_lists().count.load(std::memory_order_relaxed); }

std::vector<EvaluationNodes> evaluation_nodes() {
  std::map<uint32_t, EvaluationNodes> by_scope;
  for (NodeLists::Shard& shard : node_lists().shards) {
    const std::lock_guard lock(shard.mutex);
    for (const auto& [scope, count] : shard.evaluation) {
      EvaluationNodes& sum = by_scope[scope];
      sum.scope = scope;
      sum.made += count.made;
      sum.threads.insert(count.threads.begin(), count.threads.end());
    }
  }
  std::vector<EvaluationNodes> all;
  for (auto& [scope, count] : by_scope) all.push_back(std::move(count));
  return all;
}

void set_evaluated_module(const torch::nn::Module* module) {
  node_lists().module.store(module, std::memory_order_release);
}

}  // namespace muster::memory
