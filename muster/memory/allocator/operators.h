// Which operator runs, for the blocks that it makes: from forward to backward.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <c10/core/StorageImpl.h>

namespace muster::memory {

enum class Level : uint8_t;

// Note [Operators]
// LibTorch calls two functions around each operator (at::RecordFunction), forward and backward.
// They say what the thread is doing: the outermost operator (aten::linear, not the aten::addmm in
// it), and, in a node of a backward, the scope and layer in which its forward ran. Forward and
// backward are matched by thread and autograd's sequence number, in a table of the last 65536
// nodes; a node that has fallen out of it gets the scope that is open around the backward.
//
// That costs 0.3 to 1 us for each of them, as much as a small operator. All of it is done from
// Level::kLayers on. At Level::kTags an allocation itself asks which node of a backward runs and in
// which scope that was made (maker.h, Note [Scope log]); the functions say no more than the name of
// an operator, and whether it would build a graph, and are taken away where that is known without
// them (Note [Habits]).

/// Called at a change of the level of recordings, under their lock. `names`: at Level::kTags.
void watch_operators(Level level, bool names);

/// Storages of parameters -> layer_id(). Operators of all threads look into it at Level::kLayers
/// until the next call; a map that is replaced lives on.
using LayerMap = std::unordered_map<const c10::StorageImpl*, uint32_t>;
void set_layers(LayerMap layers);

/// An operator whose input came with the graph of an earlier iteration; of Level::kLayers.
struct ChainedOperator {
  std::string scope;
  std::string op;
  int64_t count = 0;
};

/// Since the last call: by count, most first.
std::vector<ChainedOperator> take_chained_operators();

/// Nodes of backwards that ran since the last call, and those of them whose forward was in an
/// earlier iteration; of Level::kLayers.
struct BackwardNodes {
  int64_t ran = 0;
  int64_t of_earlier_iterations = 0;
};
BackwardNodes take_backward_nodes();

/// How many nodes ran so far whose forward was in a scope, by the scope's id; of ids below 4096 and
/// of Level::kLayers.
std::vector<int64_t> nodes_run_by_scope();

}  // namespace muster::memory
