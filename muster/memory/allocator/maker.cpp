#include "muster/memory/allocator/maker.h"

#include <optional>
#include <typeinfo>

#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/function.h>

#include "muster/memory/allocator/cpu_state.h"
#include "muster/memory/allocator/habits.h"
#include "muster/memory/allocator/names.h"
#include "muster/memory/allocator/scope_log.h"
#include "muster/memory/allocator/thread_state.h"

namespace muster::memory {
namespace {

using torch::autograd::Node;

/// Inside a kernel behind autograd; in factories, too, which build no graph.
bool is_behind_autograd() {
  return c10::GradMode::is_enabled() && c10::impl::tls_local_dispatch_key_set().excluded_.has(
                                            c10::DispatchKey::AutogradFunctionality);
}

/// A node allocates several times: looked up once.
struct KnownNode {
  const Node* node = nullptr;
  const std::type_info* type = nullptr;
  uint64_t thread = 0, sequence = 0;
  uint32_t op = 0;
  std::optional<uint32_t> scope = {};

  bool is(const Node& other) const {
    return node == &other && sequence == other.sequence_nr() && thread == other.thread_id() &&
           *type == typeid(other);
  }
};

thread_local KnownNode known_node;

const KnownNode& look_up(const Node& node) {
  KnownNode& known = known_node;
  if (known.is(node)) return known;
  if (known.type == nullptr || *known.type != typeid(node)) {
    known.type = &typeid(node);
    known.op = operator_id(node.name().c_str());
  }
  known.node = &node;
  known.thread = node.thread_id();
  known.sequence = node.sequence_nr();
  // Those that accumulate gradients have no number, and no scope of their own.
  const bool is_numbered = static_cast<int64_t>(known.sequence) >= 0;
  known.scope = is_numbered ? scope_of_node(known.thread, known.sequence) : std::nullopt;
  return known;
}

}  // namespace

Maker maker_of(Level level, int64_t bytes) {
  const ThreadState& thread = this_thread_state;
  Maker maker{.scope = thread.scope,
              .op = thread.op,
              .in_backward = thread.in_backward,
              .builds_graph = thread.grad_mode};
  // From kLayers on nodes and operators have told.
  if (level != Level::kTags || thread.is_probing) return maker;
  if (const auto node = torch::autograd::get_current_node()) {
    const KnownNode& known = look_up(*node);
    return {.scope = known.scope.value_or(thread.scope),
            .op = known.op,
            .in_backward = true,
            .builds_graph = c10::GradMode::is_enabled()};
  }
  const bool inside = is_behind_autograd();
  follow_habit(bytes, thread.scope, inside);
  if (thread.op_depth > 0) {
    const bool is_sure = !cpu_memory().names_are_missing.load(kRelaxed);
    learn_habit({.op = thread.op, .builds_graph = thread.grad_mode, .is_sure = is_sure});
    return maker;
  }
  // Told, and outside of operators: a kernel that is called by itself.
  if (cpu_memory().names_are_told.load(kRelaxed)) return maker;
  const Habit habit = known_habit({.op = 0, .builds_graph = inside});
  maker.op = habit.op;
  maker.builds_graph = habit.builds_graph;
  return maker;
}

}  // namespace muster::memory
