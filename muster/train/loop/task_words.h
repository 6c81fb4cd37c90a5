// What a task's own code throws: told with the task, the rank and the step, and to the other ranks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "muster/distributed/process_group.h"
#include "muster/train/task/task.h"

namespace muster::train {

/// Which code of a task, and when.
struct OwnCode {
  std::string_view task;  ///< its name; empty: it is not made yet
  std::string_view what;  ///< "train_step", "the samples"
  std::string when;       ///< "step 5"
  /// Errors of ours need no such words: they are of what the user has said. Several ranks get them all
  /// the same.
  bool names_itself = false;
};

/// "validation after step 13": when what an evaluation calls is called.
std::string when_of(Phase phase, int64_t step);

/// The error in hand, which that code has thrown, behind "task line, train_step (rank 1, step 5)": of
/// the same kind if it is ours, else of the environment. The other ranks, which wait for this one
/// somewhere, are told it (distributed::note_own_failure). As it is if it is LibTorch's out-of-memory,
/// which has words of its own, a collective that failed because of another rank, or no std::exception. Inside a handler.
[[noreturn]] void rethrow_of_task(const distributed::ProcessGroup& group, const OwnCode& code);

/// work(), which is code of the task's own; what it throws by rethrow_of_task(). `task` gives
/// its name, and may be null; `when` says OwnCode::when; both only then.
template <class Work, class When>
auto of_task(const distributed::ProcessGroup& group,
             Task* task,
             std::string_view what,
             const When& when,
             const Work& work) {
  try {
    return work();
  } catch (...) {
    const std::string name = task != nullptr ? task->name() : "";
    rethrow_of_task(group, {.task = name, .what = what, .when = when()});
  }
}

}  // namespace muster::train
