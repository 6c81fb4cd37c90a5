// What a rank tells its peers about itself with every heartbeat, as text in the group's store.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/diagnose/record/flight_recorder.h"
#include "muster/diagnose/record/process_life.h"

namespace muster::diagnose {

/// What a heartbeat holds at most: operations, and marks (one for each power of two).
constexpr size_t kMaxBriefs = 256, kMaxMarks = 64;

/// A collective, as far as others need it.
struct OpBrief {
  uint64_t sequence = 0;
  uint64_t fingerprint = 0;
  std::string text;    ///< describe()
  bool stands = true;  ///< OpRecord::stands
  bool operator==(const OpBrief&) const = default;
};

struct PeerState {
  int64_t rank = 0;
  uint64_t beat = 0;  ///< rises with every heartbeat
  ProcessId process;
  uint64_t posted = 0;     ///< collectives called so far
  uint64_t completed = 0;  ///< of these, done or failed with all before them
  uint64_t proven = 0;     ///< see Standing
  uint64_t survived = 0;   ///< see Standing
  std::string waits_for;   ///< the operation that a thread waits for; empty: none
  double since_s = 0;      ///< how long ago the last operation was called, waited for or done
  int64_t step = -1;
  bool ended = false;            ///< it has closed the group
  bool threw = false;            ///< and that for an exception of its own
  std::string why;               ///< what that said, if it is known
  bool told = false;             ///< it knows the verdict
  std::string main_thread;       ///< "running" or "asleep"
  std::string activity;          ///< FlightRecorder::activity
  std::vector<ChainMark> marks;  ///< by count, rising
  std::vector<OpBrief> ops;      ///< the newest collectives, oldest first
  bool operator==(const PeerState&) const = default;
};

/// This rank's state by its recorder: the last `ops` collectives (at most kMaxBriefs), and numbers.
PeerState peer_state_of(const FlightRecorder& recorder, size_t ops);

/// One line of JSON.
std::string peer_state_text(const PeerState& state);

/// Throws a usage error that names `where` for anything that is not json_text's of a peer_state_of.
PeerState parse_peer_state(std::string_view text, std::string_view where);

}  // namespace muster::diagnose
