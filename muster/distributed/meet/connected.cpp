#include "muster/distributed/meet/connected.h"

#include <chrono>
#include <cstdint>
#include <exception>
#include <map>
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

std::string begun_key(int rank) { return concat("connected/from/", rank); }

/// "rank 2", "ranks 1, 2 and 5".
std::string ranks_phrase(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

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

void begin_connecting(c10d::Store& store, int rank, const std::string& where) {
  store.set(begun_key(rank), where);
}

std::string connecting_peers(c10d::Store& store,
                             int rank,
                             int world_size,
                             std::span<const int> names) {
  try {
    std::vector<int> absent;
    std::map<std::string, std::vector<int>> by_place;
    for (int peer = 0; peer < world_size; ++peer) {
      if (peer == rank) continue;
      const int name = names.empty() ? peer : names[static_cast<size_t>(peer)];
      if (!store.check({begun_key(peer)})) {
        absent.push_back(name);
        continue;
      }
      const auto bytes = store.get(begun_key(peer));
      by_place[std::string(bytes.begin(), bytes.end())].push_back(name);
    }
    std::vector<std::string> parts;
    if (!absent.empty())
      parts.push_back(concat(
          ranks_phrase(absent), absent.size() == 1 ? " has" : " have", " not begun to connect"));
    for (const auto& [place, ranks] : by_place)
      parts.push_back(
          concat(ranks_phrase(ranks), ranks.size() == 1 ? " is at " : " are at ", place));
    return join(parts, "; ");
  } catch (const std::exception&) {
    return "";
  }
}

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

Error connection_error(const BackendRequest& request,
                       std::string_view backend,
                       const std::string& where,
                       std::string why) {
  const std::string first = cannot_connect(*request.store, request.rank, why);
  if (!first.empty()) why += "; " + first;
  const std::string peers =
      connecting_peers(*request.store, request.rank, request.world_size, request.names);
  if (!peers.empty()) why += "; " + peers;
  const int name =
      request.names.empty() ? request.rank : request.names[static_cast<size_t>(request.rank)];
  return environment_error(
      {.refused = concat(backend, " could not connect the ranks: rank ", name, ", at ", where),
       .rule = why,
       .hint = concat("look at what the ranks that are named say: one that has not begun may have "
                      "failed, or was not started; then whether they can reach ",
                      request.host,
                      " (no firewall between them; GLOO_SOCKET_IFNAME names an interface)")});
}

}  // namespace muster::distributed
