#include "muster/diagnose/record/store_diagnosis.h"

#include "muster/base/text.h"

namespace muster::diagnose {

const char* hint_of(Diagnosis::Kind kind) {
  switch (kind) {
    case Diagnosis::Kind::kGone:
      return "look at that rank's own output and the launcher's; the kernel's log tells of the "
             "out-of-memory killer";
    case Diagnosis::Kind::kStopped:
      return "kill -CONT the process, or end the job";
    case Diagnosis::Kind::kSilent:
      return "look whether that host is up and reachable";
    case Diagnosis::Kind::kEnded:
      return "look why that rank ends while others need it; waiting longer does not help";
    case Diagnosis::Kind::kMissing:
      return "look at what that rank does instead; a slow one needs a longer timeout";
    default:
      return "";
  }
}

Diagnosis of_store(const StoreView& store, std::span<const PeerView> peers) {
  const int server = store.server_rank;
  Diagnosis found{.kind = Diagnosis::Kind::kUnknown, .certain = true};
  if (server < 0) {
    found.who =
        store.lost
            ? "the store of the group is gone, so the other ranks' states are unknown"
            : concat("the store of the group gives no answer for ", fixed(store.silent_s, 1), " s");
    found.hint = "look at the launcher that serves the store";
    return found;
  }
  const PeerView& peer = peers[static_cast<size_t>(server)];
  const std::string name = concat("rank ", server, ", which serves the store, ");
  const std::string process =
      peer.state
          ? concat(" (process ", peer.state->process.pid, " on ", peer.state->process.hostname, ")")
          : "";
  found.culprits = {server};
  found.kind = Diagnosis::Kind::kGone;
  if (peer.life == Life::kStopped) {
    found.kind = Diagnosis::Kind::kStopped;
    found.who = concat(name, "is stopped by SIGSTOP or a debugger", process);
  } else if (store.lost && peer.life == Life::kRuns) {
    found.kind = Diagnosis::Kind::kEnded;
    found.who = concat(name, "has closed it", process);
  } else if (store.lost) {
    found.who = concat(name, "is gone", process);
  } else {
    found.kind = Diagnosis::Kind::kSilent;
    found.who = concat(name, "gives no answer for ", fixed(store.silent_s, 1), " s", process);
  }
  found.hint = hint_of(found.kind);
  return found;
}

}  // namespace muster::diagnose
