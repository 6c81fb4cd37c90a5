// An autograd engine that leaves all work to another one.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/input_buffer.h>

namespace muster::tensor {

/// How this LibTorch holds the root of a graph: a pointer of c10's, or of the standard library's.
template <class>
struct GraphRootOf;
template <class Result, class Task, class Root, class Inputs>
struct GraphRootOf<Result (torch::autograd::Engine::*)(Task, Root, Inputs)> {
  using Type = Root;
};
using GraphRoot =
    typename GraphRootOf<decltype(&torch::autograd::Engine::execute_with_graph_task)>::Type;

/// For engines that answer a question of their own. It has no threads and no queues.
class EngineInFront : public torch::autograd::Engine {
 public:
  /// `behind` lives as long as the process, and so does this.
  explicit EngineInFront(torch::autograd::Engine& behind) : behind_(behind) {}

  torch::autograd::variable_list execute(const torch::autograd::edge_list& roots,
                                         const torch::autograd::variable_list& inputs,
                                         bool keep_graph,
                                         bool create_graph,
                                         bool accumulate_grad,
                                         const torch::autograd::edge_list& outputs = {}) override {
    return behind_.execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
  }

  c10::intrusive_ptr<at::ivalue::Future> execute_with_graph_task(
      const std::shared_ptr<torch::autograd::GraphTask>& task,
      GraphRoot root,
      torch::autograd::InputBuffer&& inputs) override {
    return behind_.execute_with_graph_task(task, std::move(root), std::move(inputs));
  }

  std::unique_ptr<torch::autograd::AnomalyMetadata> make_anomaly_metadata() override {
    return behind_.make_anomaly_metadata();
  }

  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    return behind_.get_default_saved_variable_hooks();
  }

#if __has_include(<torch/csrc/autograd/node_creation_hook.h>)  // in newer ones; 2.11 has none
  std::vector<std::unique_ptr<torch::autograd::NodeCreationHook>> get_node_creation_hooks()
      override {
    return behind_.get_node_creation_hooks();
  }
#endif

 private:
  torch::autograd::Engine& behind_;
};

}  // namespace muster::tensor
