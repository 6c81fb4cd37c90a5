// A heartbeat is refused by one usage error, or written again it reads back as the same; and what
// others say of themselves never upsets the diagnosis.
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/diagnose/record/diagnosis.h"

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  diagnose::PeerState state;
  try {
    state = diagnose::parse_peer_state(fuzz::text_of(data, size), "fuzz");
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::kUsage, "a bad heartbeat is a usage error");
    return 0;
  }
  fuzz::require(diagnose::parse_peer_state(diagnose::peer_state_text(state), "again") == state,
                "what was written reads back");
  diagnose::FlightRecorder recorder(16);
  const diagnose::OpRecord op = recorder.post({.kind = diagnose::OpKind::kBarrier});
  std::vector<diagnose::PeerView> peers(3);
  peers[0].state = diagnose::peer_state_of(recorder, 8);
  peers[1].state = state;
  peers[2] = {.age_s = 1, .life = diagnose::Life::kStopped};
  const auto found =
      diagnose::diagnose({.op = op, .rank = 0}, peers, {.server_rank = 1}, /*stale_s=*/2);
  fuzz::require(!found.who.empty(), "a diagnosis says something");
  return 0;
}
