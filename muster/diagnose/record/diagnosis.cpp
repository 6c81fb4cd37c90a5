#include "muster/diagnose/record/diagnosis.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>

#include "muster/base/text.h"
#include "muster/diagnose/record/store_diagnosis.h"

namespace muster::diagnose {
namespace {

using Kind = Diagnosis::Kind;

/// "rank 2", "ranks 0, 1 and 3".
std::string ranks_text(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

const char* are(const std::vector<int>& ranks) { return ranks.size() == 1 ? " is" : " are"; }
std::string seconds(double s) { return concat(fixed(s, 1), " s"); }

std::string first_word(const std::string& text) { return text.substr(0, text.find(' ')); }

const OpBrief* find_op(const PeerState& state, uint64_t sequence) {
  for (const OpBrief& op : state.ops) {
    if (op.sequence == sequence) return &op;
  }
  return nullptr;
}

/// The ranks that called one thing as number `sequence`.
struct Camp {
  const OpBrief* op;
  std::vector<int> ranks;
  bool stands = true;  ///< for all of them
};

/// By number of ranks, falling; the lowest rank first among equals.
std::vector<Camp> camps_at(std::span<const PeerView> peers, uint64_t sequence) {
  std::vector<Camp> camps;
  for (size_t rank = 0; rank < peers.size(); ++rank) {
    const OpBrief* op = peers[rank].state ? find_op(*peers[rank].state, sequence) : nullptr;
    if (op == nullptr) continue;
    const auto same = std::find_if(camps.begin(), camps.end(), [&](const Camp& camp) {
      return camp.op->fingerprint == op->fingerprint;
    });
    const auto camp = same != camps.end() ? same : camps.insert(camps.end(), {.op = op});
    camp->ranks.push_back(static_cast<int>(rank));
    const bool says_no_more = peers[rank].life == Life::kGone || peers[rank].state->ended;
    camp->stands &= op->stands || says_no_more;
  }
  std::stable_sort(camps.begin(), camps.end(), [](const Camp& a, const Camp& b) {
    return a.ranks.size() > b.ranks.size();
  });
  return camps;
}

/// From the collective `from` on.
std::optional<uint64_t> first_difference(std::span<const PeerView> peers, uint64_t from) {
  std::map<uint64_t, uint64_t> seen;  // sequence -> fingerprint
  std::optional<uint64_t> first;
  for (const PeerView& peer : peers) {
    if (!peer.state) continue;
    for (const OpBrief& op : peer.state->ops) {
      if (op.sequence < from) continue;
      const auto [at, fresh] = seen.emplace(op.sequence, op.fingerprint);
      if (!fresh && at->second != op.fingerprint && (!first || op.sequence < *first))
        first = op.sequence;
    }
  }
  return first;
}

/// Of a rank that stands alone at `sequence`: what its next calls say about how it got there.
std::string how_it_differs(const Camp& most,
                           const Camp& odd,
                           std::span<const PeerView> peers,
                           uint64_t sequence) {
  const OpBrief* theirs_next = find_op(*peers[most.ranks[0]].state, sequence + 1);
  const OpBrief* odd_next = find_op(*peers[odd.ranks[0]].state, sequence + 1);
  const bool as_their_next =
      theirs_next != nullptr && theirs_next->fingerprint == odd.op->fingerprint;
  const bool has_theirs_next = odd_next != nullptr && odd_next->fingerprint == most.op->fingerprint;
  const std::string rank = ranks_text(odd.ranks);
  if (as_their_next && has_theirs_next)
    return concat("; ", rank, " called the two in another order");
  if (as_their_next) return concat("; ", rank, " skipped the ", first_word(most.op->text));
  if (has_theirs_next) return concat("; ", rank, " called one operation more");
  if (first_word(most.op->text) == first_word(odd.op->text))
    return "; the operation is the same, its arguments differ";
  return "";
}

/// How many collectives every rank has called for sure, because they are done on one: a rank that
/// died went on after its last heartbeat.
uint64_t proven_calls(std::span<const PeerView> peers) {
  uint64_t proven = 0;
  for (const PeerView& peer : peers) proven = std::max(proven, peer.state ? peer.state->proven : 0);
  return proven;
}

/// How many collectives are past: there was a failure among them, and the group has lived on.
uint64_t survived_calls(std::span<const PeerView> peers) {
  uint64_t past = 0;
  for (const PeerView& peer : peers) past = std::max(past, peer.state ? peer.state->survived : 0);
  return past;
}

/// `limit`: the first collective that was not called alike, if there is one. `ours` is known to the
/// last call; who is not fresh may have called more since.
std::string last_common(std::span<const PeerView> peers, std::optional<uint64_t> limit, int ours) {
  uint64_t called = std::numeric_limits<uint64_t>::max();
  for (const PeerView& peer : peers) called = std::min(called, peer.state ? peer.state->posted : 0);
  called = std::max(called, proven_calls(peers));
  if (limit) called = std::min(called, *limit);
  if (called == 0) return "";
  bool is_known = limit && *limit == called;
  for (size_t rank = 0; rank < peers.size(); ++rank) {
    const PeerView& peer = peers[rank];
    const bool is_exact = static_cast<int>(rank) == ours || peer.is_fresh;
    is_known |= is_exact && peer.state && peer.state->posted == called;
  }
  std::string text = concat("the last operation that all ranks ",
                            is_known ? "called" : "are known to have called",
                            " alike is #",
                            called - 1);
  for (const PeerView& peer : peers) {
    const OpBrief* op = peer.state ? find_op(*peer.state, called - 1) : nullptr;
    if (op != nullptr) return text + " " + op->text;
  }
  return text;
}

std::string last_call(const PeerState& state) {
  if (state.ops.empty()) return "it has called no operation of this group";
  const OpBrief& op = state.ops.back();
  return concat("its last call was ", op.text, " #", op.sequence);
}

std::string in_step(const PeerState& state) {
  return state.step < 0 ? "" : concat(", in step ", state.step);
}

/// Of a rank that cannot be asked any more.
std::string last_heard(const PeerState& state, uint64_t proven) {
  if (state.beat == 0) return "";        // none was heard
  if (state.posted < proven) return "";  // it went on after that
  if (state.ops.empty()) return "; its last heartbeat came before its first operation";
  const OpBrief& op = state.ops.back();
  return concat("; its last heartbeat showed ", op.text, " #", op.sequence, in_step(state));
}

bool all_fresh(std::span<const PeerView> peers, const std::vector<int>& ranks) {
  return std::all_of(ranks.begin(), ranks.end(), [&](int rank) {
    return peers[static_cast<size_t>(rank)].is_fresh;
  });
}

/// Of all ranks but `ours`: what was read before may have been taken back, and who is not read yet
/// may belong to either side.
bool all_fresh(std::span<const PeerView> peers, int ours) {
  const auto others_stale = std::count_if(
      peers.begin(), peers.end(), [](const PeerView& peer) { return !peer.is_fresh; });
  return others_stale == (peers[static_cast<size_t>(ours)].is_fresh ? 0 : 1);
}

std::optional<Diagnosis> find_mismatch(std::span<const PeerView> peers, int ours) {
  Diagnosis found{.kind = Kind::kMismatch, .certain = true};
  found.hint =
      "all ranks call the same operations in the same order, with the same dtypes and sizes";
  const uint64_t past = survived_calls(peers);
  const auto sequence = first_difference(peers, past);
  const std::vector<Camp> camps = sequence ? camps_at(peers, *sequence) : std::vector<Camp>();
  if (camps.size() >= 2) {
    const bool has_majority = camps[0].ranks.size() > camps[1].ranks.size();
    const Camp& first = has_majority ? camps[1] : camps[0];
    const Camp& second = has_majority ? camps[0] : camps[1];
    const auto part = [&](const Camp& camp) {
      return concat(
          ranks_text(camp.ranks), are(camp.ranks), " at ", camp.op->text, " #", *sequence);
    };
    found.who = concat(part(first), " while ", part(second));
    for (size_t i = 2; i < camps.size(); ++i) found.who += concat(", ", part(camps[i]));
    if (has_majority) found.culprits = camps[1].ranks;
    found.who += how_it_differs(camps[0], camps[1], peers, *sequence);
    found.common = last_common(peers, *sequence, ours);
    found.may_pass = !std::ranges::all_of(camps, &Camp::stands);
    found.certain = !found.may_pass;
    return found;
  }
  if (past > 0) return std::nullopt;  // the chains differ for ever since
  for (size_t a = 0; a < peers.size(); ++a) {
    for (size_t b = a + 1; b < peers.size(); ++b) {
      if (!peers[a].state || !peers[b].state || !disagree(*peers[a].state, *peers[b].state))
        continue;
      found.who = concat("ranks ",
                         a,
                         " and ",
                         b,
                         " called different operations some time before #",
                         std::min(peers[a].state->posted, peers[b].state->posted),
                         ", longer ago than their flight records reach");
      found.certain = false;  // heartbeats in alarm reach back further than calm ones
      found.is_unseen = true;
      return found;
    }
  }
  return std::nullopt;
}

std::string life_text(int rank, const PeerView& peer, Kind kind, double stale_s, uint64_t proven) {
  const std::string name = concat("rank ", rank);
  const PeerState* state = peer.state ? &*peer.state : nullptr;
  const std::string process =
      state != nullptr ? concat("process ", state->process.pid, " on ", state->process.hostname)
                       : "";
  const std::string last = state != nullptr ? last_heard(*state, proven) : "";
  switch (kind) {
    case Kind::kGone:
      return concat(name, " is gone: ", process, " has ended", last);
    case Kind::kStopped:
      return concat(name, " is stopped (SIGSTOP or a debugger): ", process, last);
    case Kind::kEnded:
      if (state != nullptr && state->threw)
        return concat(name,
                      " failed: ",
                      state->why.empty() ? "an exception ended its part in the group" : state->why,
                      last);
      return concat(name, " has ended: it closed the group", last);
    case Kind::kSilent:
      if (state == nullptr) return concat(name, " has given no sign of life");
      return concat(name,
                    " gives no sign of life for ",
                    seconds(std::max(peer.age_s, stale_s)),
                    " (",
                    process,
                    "): it is stopped, or its host or network is gone",
                    last);
    default:
      return name;
  }
}

std::string missing_text(int rank, const PeerView& peer) {
  const PeerState& state = *peer.state;
  const double since = state.since_s + peer.age_s;
  std::string text = concat("rank ", rank, " did not come: ");
  if (!state.waits_for.empty())
    text += concat("it waits in ", state.waits_for, " for ", seconds(since));
  else
    text += concat("it is alive and ",
                   state.main_thread.empty() ? "computes" : state.main_thread,
                   " outside of any operation for ",
                   seconds(since),
                   state.activity.empty() ? "" : ", in ",
                   state.activity);
  return text + "; " + last_call(state) + in_step(state);
}

/// Of ranks that did not come, those that wait elsewhere: another rank is to blame.
std::string waiting_text(std::span<const PeerView> peers, const std::vector<int>& missing) {
  std::string text;
  for (const int rank : missing) {
    const PeerState& state = *peers[static_cast<size_t>(rank)].state;
    if (!state.waits_for.empty()) text += concat("; rank ", rank, " waits in ", state.waits_for);
  }
  return text;
}

/// Of ranks that did not come, those that say what they work at, if any do: the others may wait for
/// them.
std::vector<int> at_work(std::span<const PeerView> peers, const std::vector<int>& missing) {
  std::vector<int> found;
  std::ranges::copy_if(missing, std::back_inserter(found), [&](int rank) {
    return !peers[static_cast<size_t>(rank)].state->activity.empty();
  });
  return found.empty() ? missing : found;
}

/// Whose presence the operation needs: everybody's, or the peer's.
bool concerns(const Stuck& stuck, int rank) {
  if (rank == stuck.rank) return false;
  if (stuck.op.kind == OpKind::kSend || stuck.op.kind == OpKind::kRecv)
    return rank == stuck.op.root;
  return true;
}

bool has_called(const Stuck& stuck, const PeerState& state) {
  return !is_point_to_point(stuck.op.kind) && state.posted > stuck.op.sequence;
}

bool has_done(const Stuck& stuck, const PeerState& state) {
  return !is_point_to_point(stuck.op.kind) && state.completed > stuck.op.sequence;
}

Kind judge(const Stuck& stuck, int rank, const PeerView& peer, double stale_s) {
  if (!concerns(stuck, rank)) return Kind::kAllThere;
  // It has done its part before it ended, or not.
  if (peer.state && peer.state->ended)
    return has_done(stuck, *peer.state) ? Kind::kAllThere : Kind::kEnded;
  if (peer.life == Life::kGone) return Kind::kGone;
  if (peer.life == Life::kStopped) return Kind::kStopped;
  if (peer.life == Life::kUnknown && peer.silent_s > stale_s) return Kind::kSilent;
  if (peer.state && has_called(stuck, *peer.state)) return Kind::kAllThere;
  return peer.state && peer.is_fresh ? Kind::kMissing : Kind::kUnknown;
}

/// The rank that serves the store is none that this operation waits for: it may have returned in
/// good order, and the others need each other alone.
bool outlives(const Stuck& stuck, int server, const PeerView& view) {
  return !concerns(stuck, server) ||
         (view.state && view.state->ended && has_done(stuck, *view.state));
}

}  // namespace

bool disagree(const PeerState& a, const PeerState& b) {
  for (const ChainMark& mark : a.marks) {
    for (const ChainMark& other : b.marks) {
      if (mark.count == other.count && mark.hash != other.hash) return true;
    }
  }
  return false;
}

Diagnosis diagnose(const Stuck& stuck,
                   std::span<const PeerView> peers,
                   const StoreView& store,
                   double stale_s) {
  const bool is_ours = store.server_rank < 0 || store.server_rank == stuck.rank;
  const PeerView* server = is_ours ? nullptr : &peers[static_cast<size_t>(store.server_rank)];
  const bool server_is_dead =
      server != nullptr && (server->life == Life::kGone || server->life == Life::kStopped);
  if (auto mismatch = find_mismatch(peers, stuck.rank)) {
    mismatch->certain &= store.lost || server_is_dead || all_fresh(peers, stuck.rank);
    return *mismatch;
  }
  std::map<Kind, std::vector<int>> found;
  const uint64_t proven = proven_calls(peers);
  for (int rank = 0; rank < static_cast<int>(peers.size()); ++rank)
    found[judge(stuck, rank, peers[static_cast<size_t>(rank)], stale_s)].push_back(rank);
  // Why it failed says more than what became of it, or of the store, afterwards.
  const bool says_why = server != nullptr && server->state && server->state->threw;
  const bool may_go_on = store.server_outside || says_why ||
                         (server != nullptr && outlives(stuck, store.server_rank, *server));
  if (!may_go_on && (store.lost || store.silent_s > stale_s || server_is_dead)) {
    const bool lost = store.lost || server_is_dead;
    Diagnosis result = of_store({lost, store.silent_s, store.server_rank}, peers);
    result.common = last_common(peers, std::nullopt, stuck.rank);
    for (const Kind kind : {Kind::kGone, Kind::kStopped}) {
      for (const int rank : found[kind]) {
        if (rank == store.server_rank) continue;
        result.who +=
            "; " + life_text(rank, peers[static_cast<size_t>(rank)], kind, stale_s, proven);
        result.culprits.push_back(rank);
      }
    }
    return result;
  }
  found[Kind::kMissing] = at_work(peers, found[Kind::kMissing]);
  Diagnosis result{.common = last_common(peers, std::nullopt, stuck.rank)};
  for (const Kind kind :
       {Kind::kGone, Kind::kStopped, Kind::kEnded, Kind::kSilent, Kind::kMissing}) {
    for (const int rank : found[kind]) {
      const PeerView& peer = peers[static_cast<size_t>(rank)];
      result.culprits.push_back(rank);
      result.who += (result.who.empty() ? "" : "; ") +
                    (kind == Kind::kMissing ? missing_text(rank, peer)
                                            : life_text(rank, peer, kind, stale_s, proven));
    }
    if (result.culprits.empty()) continue;
    result.kind = kind;
    if (kind != Kind::kMissing) result.who += waiting_text(peers, found[Kind::kMissing]);
    // What the kernel or the rank itself says holds whenever it was heard.
    result.certain = kind == Kind::kStopped || kind == Kind::kEnded ||
                     (kind != Kind::kMissing && all_fresh(peers, result.culprits));
    result.hint = hint_of(kind);
    return result;
  }
  if (!found[Kind::kUnknown].empty()) {
    result.who = concat("nothing is known of ", ranks_text(found[Kind::kUnknown]));
    return result;
  }
  result.kind = Kind::kAllThere;
  result.who = is_point_to_point(stuck.op.kind) ? "the peer is alive" : "every rank called it";
  return result;
}

}  // namespace muster::diagnose
