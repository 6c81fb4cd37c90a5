// Parameters of two ranks that are one.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "muster/parallel/pipeline_ranks/tensor_post.h"

namespace muster::parallel {

/// Before a step followers take their owners' values, behind it owners get their gradients: where
/// both are on one rank, and between ranks. One thread; one for each step.
class TiedLetters {
 public:
  struct Pair {
    at::Tensor follower, owner;  ///< where they are another rank's, nobody looks at them
    int follower_rank = 0, owner_rank = 0;
  };

  /// All pairs of the pipeline, on all ranks. Tags from `first_tag` on are used; `post` outlives it.
  TiedLetters(TensorPost& post, const std::vector<Pair>& pairs, int rank, int first_tag)
      : post_(post), pairs_(pairs), rank_(rank), first_tag_(first_tag) {}

  void copy_values();
  /// Throws an environment error where the follower's rank has given up.
  void add_gradients();
  /// Writes and reads the letters that are left of both, empty.
  void give_up() noexcept;
  /// Whether what the others threw is another's failure.
  bool was_let_down() const { return waits_; }

 private:
  int value_tag(size_t pair) const { return first_tag_ + static_cast<int>(2 * pair); }
  int gradient_tag(size_t pair) const { return value_tag(pair) + 1; }
  at::Tensor receive(int from, int tag, c10::Device device);

  TensorPost& post_;
  const std::vector<Pair>& pairs_;
  int rank_, first_tag_;
  size_t values_done_ = 0, gradients_done_ = 0;
  bool waits_ = false;  // for another rank
};

}  // namespace muster::parallel
