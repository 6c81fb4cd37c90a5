// In which scope a node of a graph was made, by its number alone.
#include "muster/memory/allocator/scope_log.h"

#include <thread>

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/memory/allocator/names.h"
#include "muster/memory/allocator/scope.h"

namespace muster::memory {
namespace {

struct Made {
  uint64_t thread, sequence;
};

/// A node, in the scope that is open.
Made make_node() {
  const at::Tensor product = torch::ones({1}, torch::requires_grad()) * 2;
  return {product.grad_fn()->thread_id(), product.grad_fn()->sequence_nr()};
}

std::string scope_of(const Made& node) {
  const auto scope = scope_of_node(node.thread, node.sequence);
  return scope ? name_of(*scope) : "(forgotten)";
}

TEST(ScopeLog, TellsTheScopeThatWasOpenWhenANodeWasMade) {
  const Made before = make_node();
  Made outer{}, inner{}, outer_again{};
  {
    const Scope one("outer");
    outer = make_node();
    {
      const Scope two("inner");
      inner = make_node();
    }
    { const Scope nothing_made("empty"); }
    outer_again = make_node();
  }
  const Made behind = make_node();
  const auto told = [&](const std::string& who) {
    EXPECT_EQ(scope_of(before), "") << who;
    EXPECT_EQ(scope_of(outer), "outer") << who;
    EXPECT_EQ(scope_of(inner), "outer/inner") << who;
    EXPECT_EQ(scope_of(outer_again), "outer") << who;
    EXPECT_EQ(scope_of(behind), "") << who;
  };
  told("the thread itself");
  std::thread([&] { told("another thread"); }).join();
}

TEST(ScopeLog, IsKeptWhenItsThreadHasEnded) {
  Made made{}, scopeless{};
  std::thread([&] {
    const Scope scope("worker");
    made = make_node();
  }).join();
  std::thread([&] { scopeless = make_node(); }).join();
  EXPECT_EQ(scope_of(made), "worker");
  EXPECT_EQ(scope_of(scopeless), "");
}

TEST(ScopeLog, ForgetsWhatIsLongAgoAndSaysSo) {
  Made first{};
  {
    const Scope scope("first");
    first = make_node();
  }
  Made last{};
  for (int i = 0; i < 4096; ++i) {
    const Scope scope("later");
    last = make_node();
  }
  EXPECT_EQ(scope_of(first), "(forgotten)");
  EXPECT_EQ(scope_of(last), "later");
}

}  // namespace
}  // namespace muster::memory
