// What a thread's allocations were the last times, so that operators need not be looked at each time.
#pragma once

#include <cstdint>

namespace muster::memory {

// Note [Habits]
// A training loop makes the same allocations again and again. While LibTorch tells operators, each
// thread remembers which one made a block of so many bytes, in this scope, in or out of an operator's
// kernel, behind these three allocations before it. When it does not, a block is its operator's by
// that; one that never came so makes LibTorch tell them again, from the next operator on. Where one
// habit has had two operators, it names none; where one of them would build a graph and the other not,
// habits do not do, and LibTorch tells operators from then on.

/// Of an allocation outside of backwards.
struct Habit {
  uint32_t op = 0;
  bool builds_graph = false;
  bool is_sure =
      true;  ///< else LibTorch began to tell within that operator, which may be a part of one
};

/// The next allocation of the calling thread. `inside`: whether in a kernel behind autograd, with
/// gradients on.
void follow_habit(int64_t bytes, uint32_t scope, bool inside);

/// Which `habit` made it.
void learn_habit(const Habit& habit);

/// Which made one like it; what is not known is `otherwise`, and is to be told from now on.
Habit known_habit(const Habit& otherwise);

/// Whether an allocation that never came so has made LibTorch tell operators since the last
/// Recording::name_operators().
bool misses_names();

/// Whether some habit has been both: would build a graph, and would not.
bool habits_mislead();
/// All that the calling thread knows, and that habits mislead.
void forget_habits();

}  // namespace muster::memory
