// The nodes of autograd's graphs that are alive, by who made them and when.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace muster::memory {

// Note [Node census]
// Autograd's anomaly mode gives each node of a graph an object that lives as long as the node, and
// asks the default engine to make it. So an engine in front of the one that is there (Note [Saved
// tensors]) gives objects that remember scope, operator, iteration and thread instead of a stack,
// in a list: a count of all live graphs in C++ alone. NaN are not looked for. An error in a
// backward prints nothing more than without the census. A node costs about 0.15 us and 64 bytes.
//
// Nodes that were made before are not in it. Where anomaly mode was on already (somebody hunts a
// NaN) it stays so afterwards, and nodes that are made meanwhile keep no stack.

/// A node that is alive. Numbers are name_id()s.
struct LiveNode {
  uint32_t scope = 0, op = 0;  ///< op 0: no operator made it, but a custom autograd function
  uint32_t iteration = 0;
  uint16_t thread = 0;
  bool in_backward = false;    ///< made by a backward with create_graph
  bool in_evaluation = false;  ///< made while the evaluated module was not training
  uint64_t sequence = 0;       ///< within its thread
};

/// Counts while it lives. One or several; any thread.
class NodeCensus {
 public:
  NodeCensus();
  ~NodeCensus();
  NodeCensus(const NodeCensus&) = delete;
  NodeCensus& operator=(const NodeCensus&) = delete;
};

std::vector<LiveNode> live_nodes();
int64_t live_node_count();

/// How many were made so far while the evaluated module was not training, by scope.
struct EvaluationNodes {
  uint32_t scope = 0;
  int64_t made = 0;
  std::set<uint16_t> threads;  ///< in which; of many, some
};
std::vector<EvaluationNodes> evaluation_nodes();

/// Whose is_training() says whether a node is made in an evaluation; null: nobody's. The module
/// lives until the call with null, and no thread makes nodes during that.
void set_evaluated_module(const torch::nn::Module* module);

}  // namespace muster::memory
