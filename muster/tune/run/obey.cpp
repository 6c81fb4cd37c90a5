#include "muster/tune/run/obey.h"

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::tune {
namespace {

std::string what_becomes_of(const StudyCore& core, const ExecutorEvent& order) {
  const Trial& trial = core.trials()[static_cast<size_t>(order.trial)];
  const std::string who = concat("trial ", trial.number);
  const bool runs = trial.state == TrialState::kRunning;
  if (order.action == Action::kStop) return who + (runs ? " is stopping" : " is stopped");
  if (order.action == Action::kContinue)
    return who + (runs ? " goes on" : " goes on as soon as there is room");
  return concat(who,
                runs ? " is paused at its next report" : " is paused",
                trial.checkpoint.empty() ? "; without a checkpoint it will begin anew" : "");
}

}  // namespace

std::variant<Decision, std::string> obey(StudyCore& core,
                                         const ExecutorEvent& order,
                                         double now_s) {
  try {
    switch (order.action) {
      case Action::kStop:
        core.stop_trial(order.trial, "stopped by " + order.message, now_s);
        break;
      case Action::kPause:
        core.pause_trial(order.trial, "paused by " + order.message, now_s);
        break;
      case Action::kContinue:
        core.continue_trial(order.trial, "continued by " + order.message, now_s);
        break;
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) throw;
    return std::string(error.what());
  }
  return Decision{.action = order.action, .reason = what_becomes_of(core, order)};
}

}  // namespace muster::tune
