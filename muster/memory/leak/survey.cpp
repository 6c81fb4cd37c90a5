#include "muster/memory/leak/survey.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>

#include <torch/nn/module.h>

namespace muster::memory {
namespace {

constexpr size_t kMostThreads = 64;

uint64_t bit_of_age(uint32_t now, uint32_t born) {
  const uint32_t age = now >= born ? now - born : 0;
  return age < 64 ? uint64_t{1} << age : 0;
}

bool is_old(uint32_t now, uint32_t born) { return now >= born + kOldAge; }

/// Per maker, of this end alone.
struct BlockSums {
  int64_t bytes = 0, count = 0, of_graphs = 0, of_backward = 0, old = 0;
  uint64_t born = 0;
  uint32_t layer = 0, last_op = 0;
  std::set<uint16_t> threads;
};

void add_block(const Block& block, uint32_t first, uint32_t now, BlockSums& sums) {
  sums.bytes += block.bytes;
  ++sums.count;
  if (block.iteration < first) return;
  sums.born |= bit_of_age(now, block.iteration);
  const bool backward = (block.flags & Block::kBackward) != 0;
  sums.of_backward += backward ? 1 : 0;
  sums.of_graphs += backward || (block.flags & Block::kGradMode) != 0 ? 1 : 0;
  if (!is_old(now, block.iteration)) return;
  ++sums.old;
  if (sums.old == 1) sums.layer = block.layer;  // lists begin with what was born last
  if (sums.last_op == 0) {                      // operators of other threads may be at it
    sums.last_op =
        std::atomic_ref(const_cast<uint32_t&>(block.last_op)).load(std::memory_order_relaxed);
  }
  if (sums.threads.size() < kMostThreads) sums.threads.insert(block.thread);
}

}  // namespace

void Survey::survey_blocks(uint32_t now, size_t window) {
  std::map<MakerKey, BlockSums> seen;
  block_lists().each([&](const Block& block) {
    add_block(block, first_mark, now, seen[{block.scope, block.op}]);
  });
  for (const auto& [maker, sums] : seen) blocks.try_emplace(maker);
  for (auto at = blocks.begin(); at != blocks.end();) {
    BlockGroup& group = at->second;
    BlockSums& sums = seen[at->first];
    group.bytes.add(sums.bytes, window);
    group.counts.add(sums.count, window);
    group.bytes_now = sums.bytes;
    group.count_now = sums.count;
    group.born = sums.born;
    group.of_graphs = sums.of_graphs;
    group.of_backward = sums.of_backward;
    group.old = sums.old;
    group.layer = sums.layer;
    group.last_op = sums.last_op;
    group.threads = std::move(sums.threads);
    at = group.counts.all_zero() ? blocks.erase(at) : std::next(at);
  }
}

void Survey::survey_nodes(uint32_t now, size_t window) {
  old_nodes = old_in_backward = old_in_evaluation = 0;
  all_nodes.count_now = 0;
  all_nodes.born = 0;
  for (auto& [scope, group] : nodes) {
    group.count_now = 0;
    group.born = 0;
  }
  std::map<std::pair<uint32_t, uint16_t>, LiveNode> last;  // by iteration and thread
  for (const LiveNode& node : live_nodes()) {
    NodeGroup& group = nodes[node.scope];
    for (NodeGroup* one : {&group, &all_nodes}) {
      ++one->count_now;
      if (node.iteration >= first_mark) one->born |= bit_of_age(now, node.iteration);
    }
    if (node.iteration < first_mark || !is_old(now, node.iteration)) continue;
    ++old_nodes;
    old_in_backward += node.in_backward ? 1 : 0;
    old_in_evaluation += node.in_evaluation ? 1 : 0;
    const auto [at, first] = last.try_emplace({node.iteration, node.thread}, node);
    if (!first && node.sequence > at->second.sequence) at->second = node;
  }
  for (auto at = nodes.begin(); at != nodes.end();) {
    at->second.counts.add(at->second.count_now, window);
    at = at->second.counts.all_zero() ? nodes.erase(at) : std::next(at);
  }
  all_nodes.counts.add(all_nodes.count_now, window);

  std::map<std::pair<MakerKey, bool>, int64_t> ends_by_maker;
  for (const auto& [place, node] : last) ++ends_by_maker[{{node.scope, node.op}, node.in_backward}];
  graph_ends.clear();
  for (const auto& [end, graphs] : ends_by_maker)
    graph_ends.push_back({end.first, end.second, graphs});
  std::stable_sort(graph_ends.begin(), graph_ends.end(), [](const auto& a, const auto& b) {
    return a.graphs > b.graphs;
  });
}

Survey::Survey(uint32_t first) : first_mark(first) {
  for (const EvaluationNodes& one : evaluation_nodes()) evaluated_before_[one.scope] = one.made;
}

bool Survey::ran_backward(uint32_t scope) const {
  const std::vector<int64_t> now = nodes_run_by_scope();
  return scope >= now.size() || now[scope] > run_before_[scope];
}

void Survey::survey_evaluations() {
  for (const EvaluationNodes& one : evaluation_nodes()) {
    EvaluationCount& count = evaluations[one.scope];
    const int64_t made = one.made - evaluated_before_[one.scope];
    if (made > count.made) ++count.iterations;
    count.made = made;
    count.threads = one.threads;
  }
}

/// Names are made only where they are told: to walk a module for them costs more than all else here.
void Survey::survey_gradients(const Tracker& tracker) {
  grad_with_graph.clear();
  const auto has_graph = [](const at::Tensor& parameter) {
    const at::Tensor& gradient = parameter.grad();
    return gradient.defined() && gradient.requires_grad();
  };
  if (std::ranges::none_of(tracker.parameters(), has_graph)) return;
  for (const auto& named : tracker.module().named_parameters())
    if (has_graph(named.value())) grad_with_graph.push_back(named.key());
}

void Survey::add(const IterationMemory& memory,
                 const Tracker& tracker,
                 size_t window,
                 bool looked_at,
                 double suspicious) {
  iteration = memory.iteration;
  live_bytes = memory.end_bytes;
  const auto chains = take_chained_operators();
  const BackwardNodes backward = take_backward_nodes();
  survey_evaluations();
  if (!looked_at) return;
  ++ends;
  survey_blocks(memory_iteration(), window);
  survey_nodes(memory_iteration(), window);
  outside.add(memory, tracker.parameters(), window, suspicious);
  earlier_nodes_run.add(backward.of_earlier_iterations, window);
  if (!chains.empty()) ++chained_ends;
  for (const ChainedOperator& chain : chains) chained[{chain.scope, chain.op}] += chain.count;
  survey_gradients(tracker);
}

}  // namespace muster::memory
