// What survives an iteration's end, over the last iterations.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "muster/memory/allocator/nodes.h"
#include "muster/memory/allocator/operators.h"
#include "muster/memory/leak/outside.h"
#include "muster/memory/leak/series.h"
#include "muster/memory/tracker/tracker.h"

namespace muster::memory {

/// Survivors of an age below this many ends belong to what is under way.
inline constexpr int kOldAge = 3;

/// Scope and operator, as name_id()s.
using MakerKey = std::pair<uint32_t, uint32_t>;

/// Live blocks of one maker.
struct BlockGroup {
  Series bytes, counts;
  // At the last end:
  int64_t bytes_now = 0, count_now = 0;
  uint64_t born = 0;           ///< bit i: something born i iterations ago is alive
  int64_t of_graphs = 0;       ///< blocks that operators under gradients, or backwards, made
  int64_t of_backward = 0;     ///< of these, by backwards
  int64_t old = 0;             ///< blocks of at least kOldAge
  uint32_t layer = 0;          ///< layer_id() of an old one
  uint32_t last_op = 0;        ///< the operator that took an old one last
  std::set<uint16_t> threads;  ///< of old ones; at most 64
};

/// Live nodes of one scope.
struct NodeGroup {
  Series counts;
  int64_t count_now = 0;
  uint64_t born = 0;
};

/// The last node of a graph whose nodes survive, and how many graphs end so.
struct GraphEnd {
  MakerKey maker;
  bool in_backward = false;
  int64_t graphs = 0;
};

/// Graphs that an evaluation built.
struct EvaluationCount {
  int64_t made = 0;            ///< so far
  int64_t iterations = 0;      ///< in how many iterations
  std::set<uint16_t> threads;  ///< who built them; some of them where they are many
};

/// Filled at each end.
struct Survey {
  /// `first`: Tracker::first_mark(), or that of the iteration in which the survey begins.
  explicit Survey(uint32_t first);

  uint32_t first_mark = 0;  ///< what was born before this is nobody's survivor
  uint32_t iteration = 0;
  size_t ends = 0;  ///< behind the warm-up
  int64_t live_bytes = 0;
  std::map<MakerKey, BlockGroup> blocks;
  std::map<uint32_t, NodeGroup> nodes;  ///< by scope
  NodeGroup all_nodes;
  Outside outside;
  // Of old nodes, at the last end:
  int64_t old_nodes = 0, old_in_backward = 0, old_in_evaluation = 0;
  std::vector<GraphEnd> graph_ends;  ///< most graphs first
  // Over the window:
  Series earlier_nodes_run;  ///< nodes of earlier iterations that backwards ran
  std::map<std::pair<std::string, std::string>, int64_t> chained;  ///< by scope and operator
  int64_t chained_ends = 0;                                        ///< ends with any of them
  std::vector<std::string> grad_with_graph;                        ///< parameters, at the last end
  std::map<uint32_t, EvaluationCount> evaluations;                 ///< by scope

  /// Whether a backward ran a node of this scope since the survey began.
  bool ran_backward(uint32_t scope) const;

  /// Of an end past the warm-up if `looked_at`. `suspicious`: see Outside.
  void add(const IterationMemory& iteration,
           const Tracker& tracker,
           size_t window,
           bool looked_at,
           double suspicious);

 private:
  void survey_blocks(uint32_t iteration, size_t window);
  void survey_nodes(uint32_t iteration, size_t window);
  void survey_evaluations();
  void survey_gradients(const Tracker& tracker);

  std::vector<int64_t> run_before_ = nodes_run_by_scope();
  std::map<uint32_t, int64_t> evaluated_before_;  // by scope
};

}  // namespace muster::memory
