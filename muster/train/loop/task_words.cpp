#include "muster/train/loop/task_words.h"

#include <exception>

#include <c10/util/Exception.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/own_failure.h"
#include "muster/memory/guard/oom.h"
#include "muster/tensor/what_of.h"

namespace muster::train {
namespace {

std::string place_of(const distributed::ProcessGroup& group, const OwnCode& code) {
  const std::string rank = group.world_size() > 1 ? concat("rank ", group.rank(), ", ") : "";
  const std::string owner = code.task.empty() ? "" : concat("task ", code.task, ", ");
  return concat(owner, code.what, " (", rank, code.when, ")");
}

/// The error in hand behind that place. Ours name the task already.
Error error_at(const std::string& place, std::string_view task) {
  ErrorKind kind = ErrorKind::kEnvironment;
  ErrorText text;
  try {
    throw;
  } catch (const Error& error) {
    kind = error.kind();
    text = error.text();
    const std::string owner = concat("task ", task, ": ");
    if (text.refused.starts_with(owner)) text.refused.erase(0, owner.size());
  } catch (...) {
    text.refused = tensor::what_of(std::current_exception());
  }
  text.refused = concat(place, ": ", text.refused);
  return Error(kind, text);
}

/// Of a collective that the task's code is in, or leads to; or no error at all: what a strategy throws to
/// leave a step from within (chain_calls.cpp) is of no standard type.
bool is_not_of_task() {
  try {
    throw;
  } catch (const c10::DistError&) {
    return true;
  } catch (const std::exception&) {
    return false;
  } catch (...) {
    return true;
  }
}

bool is_ours() {
  try {
    throw;
  } catch (const Error&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

std::string when_of(Phase phase, int64_t step) {
  if (phase == Phase::kTrain) return concat("step ", step + 1);
  return concat(phase == Phase::kTest ? "test" : "validation", " after step ", step);
}

void rethrow_of_task(const distributed::ProcessGroup& group, const OwnCode& code) {
  // All that a guard would take for memory that ran out: it may make the step again, and then this rank
  // has not failed.
  if (memory::is_oom(std::current_exception()) || is_not_of_task()) throw;
  if (code.names_itself && group.world_size() == 1 && is_ours()) throw;
  const Error placed = error_at(place_of(group, code), code.task);
  if (!distributed::note_own_failure(group, placed.what())) throw;
  std::throw_with_nested(placed);
}

}  // namespace muster::train
