// A heartbeat is refused by one usage error, or written again it reads back as the same; and what
// others say of themselves never upsets the diagnosis.
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/parallel/formats/diagnosis.h"

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  parallel::PeerState state;
  try {
    state = parallel::parse_peer_state(fuzz::text_of(data, size), "fuzz");
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::kUsage, "a bad heartbeat is a usage error");
    return 0;
  }
  fuzz::require(parallel::parse_peer_state(parallel::to_text(state), "again") == state,
                "what was written reads back");
  parallel::FlightRecorder recorder(16);
  const parallel::OpRecord op = recorder.post({.kind = parallel::OpKind::kBarrier});
  std::vector<parallel::PeerView> peers(3);
  peers[0].state = parallel::peer_state_of(recorder, 8);
  peers[1].state = state;
  peers[2] = {.age_s = 1, .life = parallel::Life::kStopped};
  const auto found =
      parallel::diagnose({.op = op, .rank = 0}, peers, {.server_rank = 1}, /*stale_s=*/2);
  fuzz::require(!found.who.empty(), "a diagnosis says something");
  return 0;
}
