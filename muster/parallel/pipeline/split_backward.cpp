#include "muster/parallel/pipeline/split_backward.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include <ATen/ops/ones_like.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>

namespace muster::parallel {
namespace {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Engine;
using torch::autograd::Node;
using torch::autograd::variable_list;
using NodePointer = decltype(Edge::function);  // of the standard library in older LibTorch

struct Roots {
  edge_list edges;
  variable_list gradients;
};

/// Where backward begins: the outputs that have a graph and a gradient.
Roots roots_of(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& gradients) {
  Roots roots;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const at::Tensor& output = outputs[i];
    if (!output.defined() || !output.requires_grad()) continue;
    at::Tensor gradient = i < gradients.size() ? gradients[i] : at::Tensor();
    if (gradients.empty() && output.numel() == 1) gradient = at::ones_like(output);
    if (!gradient.defined()) continue;
    roots.edges.push_back(torch::autograd::impl::gradient_edge(output));
    roots.gradients.push_back(std::move(gradient));
  }
  return roots;
}

/// The part of a graph that leads to some of its leaves.
class GraphPart {
 public:
  GraphPart(const edge_list& roots, const edge_list& ends) {
    for (const Edge& end : ends) leads_there_[end.function.get()] = true;
    for (const Edge& root : roots) visit(root.function);
  }

  bool has(const Edge& edge) const {
    const auto found = leads_there_.find(edge.function.get());
    return found != leads_there_.end() && found->second;
  }

  /// Takes the node's edges to other nodes of the way away. Node::set_next_edge() does so only
  /// while a graph is built: the node's height must not grow. It stays what it was here.
  void cut_from(Node& node) const {
    for (Edge& edge : const_cast<edge_list&>(node.next_edges()))
      if (has(edge)) edge = Edge();
  }

  /// Nodes of the way with edges off it, in the order in which they were found.
  const std::vector<NodePointer>& frontier() const { return frontier_; }

 private:
  // Depth first without recursion: graphs are as deep as models are.
  void visit(const NodePointer& root) {
    struct Open {
      NodePointer node;
      size_t next_edge;
    };
    std::vector<Open> open;
    const auto enter = [&](const NodePointer& node) {
      if (node && leads_there_.emplace(node.get(), false).second) open.push_back({node, 0});
    };
    enter(root);
    while (!open.empty()) {
      Open& top = open.back();
      const edge_list& edges = top.node->next_edges();
      if (top.next_edge < edges.size()) {
        enter(edges[top.next_edge++].function);
        continue;
      }
      leave(top.node);
      open.pop_back();
    }
  }

  void leave(const NodePointer& node) {
    const edge_list& edges = node->next_edges();
    const auto on_way = [&](const Edge& edge) { return has(edge); };
    if (!std::any_of(edges.begin(), edges.end(), on_way)) return;
    leads_there_[node.get()] = true;
    const auto off_way = [&](const Edge& edge) { return edge.is_valid() && !has(edge); };
    if (std::any_of(edges.begin(), edges.end(), off_way)) frontier_.push_back(node);
  }

  std::unordered_map<const Node*, bool> leads_there_;
  std::vector<NodePointer> frontier_;
};

edge_list edges_to(const std::vector<at::Tensor>& leaves) {
  edge_list edges;
  for (const at::Tensor& leaf : leaves)
    if (leaf.defined() && leaf.requires_grad())
      edges.push_back(torch::autograd::impl::gradient_edge(leaf));
  return edges;
}

variable_list run(const Roots& roots, bool keeps_graph, bool accumulates, const edge_list& ends) {
  if (roots.edges.empty()) return variable_list(ends.size());
  return Engine::get_default_engine().execute(
      roots.edges, roots.gradients, keeps_graph, /*create_graph=*/false, accumulates, ends);
}

/// In the places of `leaves`, the next of `found` for each that needs a gradient.
std::vector<at::Tensor> in_places_of(const std::vector<at::Tensor>& leaves,
                                     const variable_list& found) {
  std::vector<at::Tensor> placed(leaves.size());
  size_t next = 0;
  for (size_t i = 0; i < leaves.size(); ++i)
    if (leaves[i].defined() && leaves[i].requires_grad()) placed[i] = found[next++];
  return placed;
}

}  // namespace

int64_t WeightGradients::bytes() const {
  std::unordered_set<const void*> seen;
  int64_t bytes = 0;
  for (const at::Tensor& gradient : gradients_)
    if (gradient.has_storage() && seen.insert(gradient.storage().unsafeGetStorageImpl()).second)
      bytes += static_cast<int64_t>(gradient.storage().nbytes());
  return bytes;
}

void WeightGradients::accumulate() {
  const Roots roots{std::exchange(from_, {}), std::exchange(gradients_, {})};
  run(roots, /*keeps_graph=*/false, /*accumulates=*/true, {});
}

InputGradients backward_of_inputs(const std::vector<at::Tensor>& outputs,
                                  const std::vector<at::Tensor>& gradients,
                                  const std::vector<at::Tensor>& inputs) {
  const Roots roots = roots_of(outputs, gradients);
  const edge_list ends = edges_to(inputs);
  const GraphPart part(roots.edges, ends);

  // To the inputs, and what comes into the frontier on the way there.
  edge_list caught = ends;
  for (const NodePointer& node : part.frontier())
    for (uint32_t i = 0; i < node->num_inputs(); ++i) caught.emplace_back(node, i);
  Roots on_way;
  Roots later;  // roots that lead to parameters alone
  for (size_t i = 0; i < roots.edges.size(); ++i) {
    Roots& into = part.has(roots.edges[i]) ? on_way : later;
    into.edges.push_back(roots.edges[i]);
    into.gradients.push_back(roots.gradients[i]);
  }
  const variable_list found = run(on_way, /*keeps_graph=*/true, /*accumulates=*/false, caught);

  for (size_t i = 0; i < caught.size(); ++i) {
    const bool is_leaf = i < ends.size() && ends[i].function->next_edges().empty();
    if (!found[i].defined() || is_leaf) continue;
    later.edges.push_back(caught[i]);
    later.gradients.push_back(found[i]);
  }
  for (const NodePointer& node : part.frontier()) part.cut_from(*node);
  return {in_places_of(inputs, found),
          WeightGradients(std::move(later.edges), std::move(later.gradients))};
}

std::vector<at::Tensor> backward_of_all(const std::vector<at::Tensor>& outputs,
                                        const std::vector<at::Tensor>& gradients,
                                        const std::vector<at::Tensor>& inputs) {
  run(roots_of(outputs, gradients), /*keeps_graph=*/false, /*accumulates=*/true, {});
  std::vector<at::Tensor> found(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].defined()) found[i] = std::exchange(at::Tensor(inputs[i]).mutable_grad(), {});
  return found;
}

}  // namespace muster::parallel
