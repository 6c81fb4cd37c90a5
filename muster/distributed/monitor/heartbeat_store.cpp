#include "muster/distributed/monitor/heartbeat_store.h"

#include <algorithm>
#include <thread>
#include <utility>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::distributed {
namespace {

constexpr size_t kCalmOps = 8, kAlarmOps = diagnose::kMaxBriefs;
/// How long the end of a group waits for a store that does not answer.
constexpr auto kGoodbye = std::chrono::milliseconds(400);
/// How long the start of a group waits for the first heartbeat of the rank that serves the store.
constexpr auto kMeeting = std::chrono::milliseconds(2000);
constexpr const char* kVerdictKey = "verdict";

std::string state_key(int64_t rank) { return concat("state/", rank); }

/// The value of a key that may not be there, without waiting for it: to compare an absent value
/// with "" and to store "" changes nothing that anybody sees.
std::string read(c10d::Store& store, const std::string& key) {
  return store.compareSet(key, std::string(), std::string());
}

}  // namespace

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

HeartbeatStore::HeartbeatStore(c10::intrusive_ptr<c10d::Store> store,
                               HeartbeatOptions options,
                               std::shared_ptr<diagnose::FlightRecorder> recorder)
    : shared_(std::make_shared<Shared>()) {
  shared_->options = options;
  shared_->recorder = std::move(recorder);
  shared_->peers.assign(static_cast<size_t>(options.world_size), {.since = Clock::now()});
  shared_->store = std::move(store);
  meet_server(*shared_);
  std::thread([shared = shared_] { beat(shared); }).detach();
}

HeartbeatStore::~HeartbeatStore() { close(); }

void HeartbeatStore::close() {
  std::unique_lock lock(shared_->mutex);
  if (std::exchange(shared_->stopping, true)) return;
  shared_->bump();
  shared_->changed.wait_for(
      lock, kGoodbye + std::chrono::milliseconds(100), [&] { return shared_->finished; });
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
      read_all_ = alarm_ || s_.verdict || !s_.server;
      proposal_ = s_.proposal;
      mine = diagnose::peer_state_of(*s_.recorder, s_.fast() ? kAlarmOps : kCalmOps);
      mine.ended = s_.stopping;
      mine.told = s_.verdict.has_value();
      mine.beat = ++s_.beats;
      s_.asked_at = Clock::now();
    }
    mine.rank = options_.rank;
    mine.process = s_.process;
    store_->set(state_key(options_.rank), peer_state_text(mine));
    return mine.ended;
  }

  /// Reads the verdict (or writes it), alarms, the neighbour, and in alarm everybody; after the
  /// verdict, too: who knows it?
  void learn() {
    const std::string verdict = store_->compareSet(kVerdictKey, std::string(), proposal_);
    const int64_t alarms = store_->add("alarm", alarm_ ? 1 : 0);
    const int neighbour = (options_.rank + 1) % options_.world_size;
    std::vector<Look> looks;
    for (int rank = 0; rank < options_.world_size; ++rank) {
      if (rank != options_.rank && (read_all_ || rank == neighbour)) looks.push_back(look_at(rank));
    }
    const std::lock_guard lock(s_.mutex);
    s_.asked_at.reset();
    for (Look& look : looks) note(std::move(look));
    is_news_ = !verdict.empty() && !s_.verdict;
    if (is_news_) s_.verdict = verdict;
    s_.alarms_heard = alarms != s_.alarms_seen ? 5 : std::max(0, s_.alarms_heard - 1);
    s_.alarms_seen = alarms;
    s_.bump();
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
      peer.silent += std::min<Clock::duration>(look.begun - *peer.read_at, options_.heartbeat);
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
  bool alarm_ = false, read_all_ = false, is_news_ = false;
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

void HeartbeatStore::set_alarm(bool on) {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->alarm.has_value() == on) return;
  shared_->alarm = on ? std::optional(Clock::now()) : std::nullopt;
  shared_->bump();
}

void HeartbeatStore::propose(const std::string& verdict) {
  const std::lock_guard lock(shared_->mutex);
  shared_->proposal = verdict;
  shared_->bump();
}

bool HeartbeatStore::agrees(const Call& call, bool in_doubt) {
  const auto question = std::make_shared<Shared::Question>(Shared::Question{.call = call});
  std::unique_lock lock(shared_->mutex);
  if (shared_->lost || shared_->stopping) return in_doubt;
  shared_->questions.push_back(question);
  shared_->changed.notify_all();
  shared_->changed.wait_for(lock, shared_->options.heartbeat, [&] {
    return question->agrees.has_value() || shared_->lost;
  });
  return question->agrees.value_or(in_doubt);
}

void HeartbeatStore::withdraw(const Call& call) {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->lost || shared_->stopping) return;
  shared_->questions.push_back(
      std::make_shared<Shared::Question>(Shared::Question{.call = call, .withdraws = true}));
  shared_->changed.notify_all();
}

std::optional<std::string> HeartbeatStore::verdict() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->verdict;
}

std::vector<diagnose::PeerView> HeartbeatStore::peers() const {
  diagnose::PeerState own = diagnose::peer_state_of(*shared_->recorder, kAlarmOps);
  own.rank = shared_->options.rank;
  own.process = shared_->process;
  const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
  std::vector<Shared::Peer> peers;
  std::optional<Clock::time_point> alarm;
  {
    const std::lock_guard lock(shared_->mutex);
    peers = shared_->peers;
    alarm = shared_->alarm;
  }
  const auto now = Clock::now();
  std::vector<diagnose::PeerView> views;
  for (Shared::Peer& peer : peers) {
    diagnose::PeerView& view = views.emplace_back();
    view.age_s = seconds(now - peer.since);
    view.silent_s = seconds(peer.silent);
    if (peer.state) {
      const bool is_us = peer.state->process == own.process;  // a thread
      view.life = is_us ? diagnose::Life::kRuns : diagnose::life_of(peer.state->process);
    }
    // Of a process that the kernel cannot be asked about, one that it wrote since is a sign of life,
    // not one that was read since.
    const bool is_alive = view.life != diagnose::Life::kUnknown || peer.renewed_at >= alarm;
    view.is_fresh = alarm && peer.read_at && *peer.read_at >= *alarm && is_alive &&
                    (view.life != diagnose::Life::kGone || peer.was_gone);
    view.state = std::move(peer.state);
  }
  views[static_cast<size_t>(own.rank)] = {
      .state = own, .life = diagnose::Life::kRuns, .is_fresh = true};
  return views;
}

diagnose::StoreView HeartbeatStore::store() const {
  const std::lock_guard lock(shared_->mutex);
  diagnose::StoreView view{.lost = shared_->lost, .server_rank = shared_->options.server_rank};
  if (shared_->asked_at)
    view.silent_s = std::chrono::duration<double>(Clock::now() - *shared_->asked_at).count();
  return view;
}

bool HeartbeatStore::all_told() const {
  const std::vector<diagnose::PeerView> views = peers();
  return std::all_of(views.begin(), views.end(), [&](const diagnose::PeerView& view) {
    if (view.life == diagnose::Life::kGone || view.life == diagnose::Life::kStopped) return true;
    if (!view.state) return false;
    return view.state->rank == shared_->options.rank || view.state->told || view.state->ended;
  });
}

bool HeartbeatStore::neighbour_disagrees() const {
  const auto own = shared_->recorder->marks();
  const std::lock_guard lock(shared_->mutex);
  const int rank = (shared_->options.rank + 1) % shared_->options.world_size;
  const Shared::Peer& neighbour = shared_->peers[static_cast<size_t>(rank)];
  return neighbour.state && diagnose::disagree(*neighbour.state, {.marks = own});
}

bool HeartbeatStore::is_fresh(Clock::time_point since) const {
  const std::lock_guard lock(shared_->mutex);
  for (size_t rank = 0; rank < shared_->peers.size(); ++rank) {
    if (static_cast<int>(rank) == shared_->options.rank) continue;
    const Shared::Peer& peer = shared_->peers[rank];
    if (!peer.state) return false;
    if (peer.since <= since && !peer.state->ended) return false;
  }
  return true;
}

uint64_t HeartbeatStore::version() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->version;
}

void HeartbeatStore::wait_until(uint64_t seen, Clock::time_point until) {
  std::unique_lock lock(shared_->mutex);
  shared_->changed.wait_until(lock, until, [&] { return shared_->version != seen; });
}

void HeartbeatStore::wake() {
  const std::lock_guard lock(shared_->mutex);
  shared_->bump();
}

std::chrono::milliseconds HeartbeatStore::heartbeat() const { return shared_->options.heartbeat; }
std::chrono::milliseconds HeartbeatStore::fast_heartbeat() const {
  return shared_->options.heartbeat / 5;
}
double HeartbeatStore::stale_s() const {
  return 2.5 * std::chrono::duration<double>(shared_->options.heartbeat).count();
}

}  // namespace muster::distributed
