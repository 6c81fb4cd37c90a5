// A command that may be that of a rank.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/rank_env.h"
#include "muster/base/text.h"
#include "muster/distributed/meet/store.h"
#include "muster/distributed/own_failure.h"
#include "muster/distributed/process_group.h"
#include "muster/train/program/torch_words.h"

namespace muster::train {

/// Runs it with errors in a user's words (in_torch_words). An error before the ranks have met also ends
/// those of other machines, which would wait for this one; that takes three seconds at most. One that this
/// rank has noted (own_failure.h) is heard by the others before the process ends, and of one that all ranks
/// have the process that serves their store ends last.
template <class Command>
int as_rank(Command&& command) {
  try {
    return in_torch_words(std::forward<Command>(command));
  } catch (const Error& error) {
    const std::string what = error.what();
    distributed::end_before_meeting(first_line(what));
    distributed::let_others_hear();
    throw;
  }
}

/// Of the group of a command's ranks. `command`: "train", which ranks that run another one do not meet.
/// `say`: hears, on one rank of each machine, whom it waits for.
inline distributed::GroupOptions group_options(const std::string& backend,
                                               const at::Device& device,
                                               const std::string& command,
                                               const std::optional<RankEnv>& env,
                                               std::function<void(const std::string&)> say) {
  distributed::GroupOptions options{.backend = backend, .device = device};
  options.program = concat(distributed::program_name(), ' ', command);
  if (env && env->local_rank == 0) options.waiting = std::move(say);
  return options;
}

}  // namespace muster::train
