#include "muster/distributed/meet/connected.h"

#include <chrono>
#include <cstdint>
#include <exception>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/diagnose/record/failure_note.h"
#include "muster/distributed/meet/host.h"

namespace muster::distributed {
namespace {

constexpr const char* kConnectedKey = "connected/end";
constexpr const char* kAllConnected = "all";

std::string heard_key(int rank) { return concat("connected/heard/", rank); }

/// As a courtesy: who waits in vain goes on.
void await_hearers(c10d::Store& store, int world_size) {
  std::vector<std::string> keys;
  for (int rank = 1; rank < world_size; ++rank) keys.push_back(heard_key(rank));
  try {
    store.wait(keys, std::chrono::milliseconds(kHeardMs));
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the first operation tells why
  }
}

}  // namespace

void await_all_connected(c10d::Store& store, int rank, int world_size) {
  if (world_size < 2) return;
  if (store.add("connected/count", 1) == world_size)
    store.set(kConnectedKey, std::string(kAllConnected));
  const std::string end =
      await_text(store,
                 kConnectedKey,
                 {.refused = concat("rank ", rank, " is connected, and not all of the others are"),
                  .hint = "look at what they say; check that they reach each other"});
  if (rank != 0) store.set(heard_key(rank), std::string());
  if (end == kAllConnected) {
    if (rank == 0) await_hearers(store, world_size);
    return;
  }
  const Error told =
      environment_error({.refused = "the ranks could not be connected", .rule = end});
  diagnose::note_failure_of_peers(told.what(), {});
  throw told;
}

std::string cannot_connect(c10d::Store& store, int rank, const std::string& why) {
  try {
    const std::string own = concat("rank ", rank, ": ", why);
    const auto bytes = store.compareSet(
        kConnectedKey, std::vector<uint8_t>(), std::vector<uint8_t>(own.begin(), own.end()));
    const std::string first(bytes.begin(), bytes.end());
    return first == own || first == kAllConnected ? "" : first;
  } catch (const std::exception&) {
    return "";
  }
}

}  // namespace muster::distributed
