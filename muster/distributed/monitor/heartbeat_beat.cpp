// The thread of a HeartbeatStore.
#include <algorithm>
#include <thread>
#include <utility>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/monitor/heartbeat_store.h"

namespace muster::distributed {
namespace {

constexpr size_t kCalmOps = 8;
/// How long the start of a group waits for the first heartbeat of the rank that serves the store.
constexpr auto kMeeting = std::chrono::milliseconds(2000);
constexpr const char* kVerdictKey = "verdict";
/// So many peers are read per heartbeat in alarm: what the store is asked for by all ranks together
/// grows with their number, not with its square.
constexpr int kReadsPerBeat = 8;

std::string state_key(int64_t rank) { return concat("state/", rank); }

/// The value of a key that may not be there, without waiting for it: to compare an absent value
/// with "" and to store "" changes nothing that anybody sees.
std::string read(c10d::Store& store, const std::string& key) {
  return store.compareSet(key, std::string(), std::string());
}

}  // namespace

std::chrono::milliseconds HeartbeatOptions::pass() const {
  const int in_turn = std::max(0, world_size - 2), per_beat = kReadsPerBeat - 1;
  const int beats = (in_turn + per_beat - 1) / per_beat;
  return std::max(0, beats - 1) * (heartbeat / 5);
}

/// Which process serves the store is learnt before anything can happen to it: a store whose server
/// is stopped cannot be asked any more.
void HeartbeatStore::meet_server(Shared& shared) {
  const int server = shared.options.server_rank, rank = shared.options.rank;
  if (server < 0 || server == rank) shared.server = shared.process;
  if (server < 0) return;
  const auto store = c10::make_intrusive<c10d::PrefixStore>("monitor", shared.store);
  const std::string key = state_key(server);
  if (server == rank) {
    store->set(key, peer_state_text(diagnose::PeerState{.rank = rank, .process = shared.process}));
    return;
  }
  try {
    store->wait({key}, kMeeting);
    diagnose::PeerState state = diagnose::parse_peer_state(read(*store, key), "first heartbeat");
    shared.server = state.process;
    shared.peers[static_cast<size_t>(server)].state = std::move(state);
  } catch (const std::exception&) {
    return;  // it has no monitor, or another version of Muster: heartbeats may tell
  }
}

/// The thread that talks to the store. Everything of it is done without the lock but where it says.
class HeartbeatStore::Beat {
 public:
  Beat(Shared& shared, c10::intrusive_ptr<c10d::Store> store)
      : s_(shared), options_(shared.options), store_(std::move(store)) {}

  void run() {
    // A request to a server that is gone prints c10d's warning: not at the end of a good run.
    while (!server_is_gone()) {
      if (tell()) break;
      learn();
      pause();
    }
    if (options_.server_rank == options_.rank) wait_for_goodbyes();
  }

 private:
  /// Writes this rank's state. True if that was the last one.
  bool tell() {
    diagnose::PeerState mine;
    {
      const std::lock_guard lock(s_.mutex);
      alarm_ = s_.alarm.has_value();
      reads_others_ = alarm_ || s_.verdict;
      needs_server_ = !s_.server;
      proposal_ = s_.proposal;
      mine = diagnose::peer_state_of(*s_.recorder, s_.fast() ? diagnose::kMaxBriefs : kCalmOps);
      mine.ended = s_.stopping;
      mine.threw = s_.threw;
      mine.told = s_.verdict.has_value();
      mine.beat = ++s_.beats;
      s_.asked_at = Clock::now();
    }
    mine.rank = options_.rank;
    mine.process = s_.process;
    store_->set(state_key(options_.rank), peer_state_text(mine));
    return mine.ended;
  }

  /// Reads the verdict (or writes it), alarms, the neighbour, and in alarm the others in turn; after
  /// the verdict, too: who knows it?
  void learn() {
    const std::string verdict = store_->compareSet(kVerdictKey, std::string(), proposal_);
    const int64_t alarms = store_->add("alarm", alarm_ ? 1 : 0);
    std::vector<Look> looks;
    for (const int rank : to_read()) looks.push_back(look_at(rank));
    if (!verdict.empty()) told_ = store_->add("told", std::exchange(has_told_, true) ? 0 : 1);
    const std::lock_guard lock(s_.mutex);
    s_.told = told_;
    s_.asked_at.reset();
    for (Look& look : looks) note(std::move(look));
    is_news_ = !verdict.empty() && !s_.verdict;
    if (is_news_) s_.verdict = verdict;
    s_.alarms_heard = alarms != s_.alarms_seen ? 5 : std::max(0, s_.alarms_heard - 1);
    s_.alarms_seen = alarms;
    s_.bump();
  }

  /// Each rank begins behind itself, so that not all read the same ones at once.
  std::vector<int> to_read() {
    const int others = options_.world_size - 1;
    const auto behind = [&](int steps) { return (options_.rank + steps) % options_.world_size; };
    std::vector<int> ranks{behind(1)};
    if (needs_server_ && options_.server_rank != ranks[0]) ranks.push_back(options_.server_rank);
    if (!reads_others_) return ranks;
    for (int i = 1; i < std::min(others, kReadsPerBeat); ++i) {
      turn_ = turn_ >= others ? 2 : turn_ + 1;
      ranks.push_back(behind(turn_));
    }
    return ranks;
  }

  struct Look {
    int rank;
    bool was_gone;
    Clock::time_point begun;
    std::optional<diagnose::PeerState> state;
  };

  /// The process is asked for before its heartbeat: of one that has ended, this was the last.
  Look look_at(int rank) {
    const auto& known = s_.peers[static_cast<size_t>(rank)].state;
    const bool was_gone = known && diagnose::life_of(known->process) == diagnose::Life::kGone;
    const auto begun = Clock::now();
    return {rank, was_gone, begun, peer(rank)};
  }

  /// Under the lock. Silence counts where we looked: not while this process was stopped, or calm.
  void note(Look look) {
    Shared::Peer& peer = s_.peers[static_cast<size_t>(look.rank)];
    if (look.state && (!peer.state || peer.state->beat != look.state->beat)) {
      peer.since = Clock::now();
      if (peer.state) peer.renewed_at = peer.since;
      peer.silent = {};
    } else if (peer.read_at) {
      peer.silent += std::min<Clock::duration>(look.begun - *peer.read_at,
                                               options_.heartbeat + options_.pass());
    }
    peer.read_at = look.begun;
    peer.was_gone = look.was_gone;
    if (!look.state) return;
    peer.state = std::move(look.state);
    if (look.rank == options_.server_rank) s_.server = peer.state->process;
  }

  /// Until the next heartbeat; answers questions meanwhile.
  void pause() {
    std::unique_lock lock(s_.mutex);
    if (is_news_) return;  // the verdict is acknowledged at once
    const auto next = Clock::now() + (s_.fast() ? options_.heartbeat / 5 : options_.heartbeat);
    while (true) {
      s_.changed.wait_until(lock, next, [&] {
        return s_.stopping || (s_.alarm.has_value() && !alarm_) ||
               (s_.proposal != proposal_ && !s_.verdict) || !s_.questions.empty();
      });
      if (s_.questions.empty()) return;
      const auto questions = std::exchange(s_.questions, {});
      s_.asked_at = Clock::now();
      lock.unlock();
      std::vector<bool> answers;
      for (const auto& question : questions) answers.push_back(agrees(*question));
      lock.lock();
      s_.asked_at.reset();
      for (size_t i = 0; i < questions.size(); ++i) questions[i]->agrees = answers[i];
      s_.bump();
    }
  }

  /// The first rank writes what it called; the rest compare.
  bool agrees(const Shared::Question& question) {
    const Call& call = question.call;
    const std::string key = concat("call/", call.sequence, "/", call.attempt);
    const std::string mine = std::to_string(call.fingerprint);
    if (!question.withdraws) return store_->compareSet(key, std::string(), mine) == mine;
    store_->compareSet(key, mine, std::string());
    return true;
  }

  std::optional<diagnose::PeerState> peer(int rank) {
    const std::string text = read(*store_, state_key(rank));
    if (text.empty()) return std::nullopt;
    try {
      return diagnose::parse_peer_state(text, concat("heartbeat of rank ", rank));
    } catch (const Error&) {
      return std::nullopt;  // another version of Muster: as if it said nothing
    }
  }

  bool server_is_gone() {
    const int server = options_.server_rank;
    if (server < 0 || server == options_.rank) return false;
    std::optional<diagnose::ProcessId> process;
    {
      const std::lock_guard lock(s_.mutex);
      process = s_.server;
    }
    if (!process || diagnose::life_of(*process) != diagnose::Life::kGone) return false;
    const std::lock_guard lock(s_.mutex);
    s_.lost = true;
    return true;
  }

  /// The store ends with this process: its peers say goodbye first, if they come soon.
  void wait_for_goodbyes() {
    const auto until = Clock::now() + kGoodbye;
    for (int rank = 0; rank < options_.world_size;) {
      const auto state = rank == options_.rank ? std::nullopt : peer(rank);
      if (!state || state->ended || diagnose::life_of(state->process) == diagnose::Life::kGone) {
        ++rank;
        continue;
      }
      if (Clock::now() >= until) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  Shared& s_;
  const HeartbeatOptions options_;
  const c10::intrusive_ptr<c10d::Store> store_;
  std::string proposal_;  // as of the last heartbeat
  bool alarm_ = false, reads_others_ = false, needs_server_ = false, is_news_ = false;
  int turn_ = 1;  // who was read last, in steps behind this rank; the neighbour, 1, always is
  bool has_told_ = false;
  int64_t told_ = 0;
};

void HeartbeatStore::beat(const std::shared_ptr<Shared>& shared) {
  try {
    // A connection of its own: what another thread asks the store for may take until its timeout.
    const auto store = std::exchange(shared->store, nullptr)->clone();
    Beat(*shared, c10::make_intrusive<c10d::PrefixStore>("monitor", store)).run();
  } catch (const std::exception&) {
    const std::lock_guard lock(shared->mutex);
    shared->lost = true;
    shared->asked_at.reset();
  }
  const std::lock_guard lock(shared->mutex);
  shared->finished = true;
  shared->bump();
}

}  // namespace muster::distributed
