#include "muster/distributed/monitor/heartbeat_store.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "muster/distributed/meet/waited_time.h"

namespace muster::distributed {

HeartbeatStore::HeartbeatStore(c10::intrusive_ptr<c10d::Store> store,
                               HeartbeatOptions options,
                               std::shared_ptr<diagnose::FlightRecorder> recorder,
                               const HeartbeatStore* parent)
    : shared_(std::make_shared<Shared>(parent == nullptr ? std::make_shared<Common>()
                                                         : parent->shared_->common)) {
  const auto& common = shared_->common;
  shared_->options = std::move(options);
  shared_->recorder = std::move(recorder);
  shared_->peers.assign(static_cast<size_t>(shared_->options.world_size), {.since = Clock::now()});
  if (parent == nullptr) {
    common->store = std::move(store);
    meet_server(*shared_);
    common->boards.push_back(shared_);
    std::thread([common] { run(common); }).detach();
    return;
  }
  const std::lock_guard lock(common->mutex);
  shared_->lost = shared_->finished = common->over;
  if (!common->over) common->boards.push_back(shared_);
  shared_->bump();
}

HeartbeatStore::~HeartbeatStore() { close(); }

void HeartbeatStore::close(bool threw, const std::string& why) {
  std::unique_lock lock(shared_->mutex);
  if (std::exchange(shared_->stopping, true)) return;
  shared_->threw = threw;
  shared_->why = why;
  shared_->bump();
  shared_->changed.wait_for(
      lock, kGoodbye + std::chrono::milliseconds(100), [&] { return shared_->finished; });
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

std::optional<bool> HeartbeatStore::agrees(const Call& call, std::chrono::milliseconds patience) {
  const auto question = std::make_shared<Shared::Question>(Shared::Question{.call = call});
  std::unique_lock lock(shared_->mutex);
  if (shared_->lost || shared_->stopping) return std::nullopt;
  shared_->questions.push_back(question);
  shared_->changed.notify_all();
  const Clock::duration beat = shared_->options.heartbeat;
  WaitedTime waited(beat / 2);
  for (auto left = Clock::duration(patience); left.count() > 0; left = patience - waited.look()) {
    if (shared_->changed.wait_for(lock, std::min(left, beat / 5), [&] {
          return question->agrees.has_value() || shared_->lost || shared_->stopping;
        }))
      break;
  }
  return question->agrees;
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
  diagnose::PeerState own = diagnose::peer_state_of(*shared_->recorder, diagnose::kMaxBriefs);
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
    // Of a process that the kernel cannot be asked about, one that it wrote since is a sign of
    // life, not one that was read since.
    const bool is_alive = view.life != diagnose::Life::kUnknown || peer.renewed_at >= alarm;
    view.is_fresh = alarm && peer.read_at && *peer.read_at >= *alarm && is_alive &&
                    (view.life != diagnose::Life::kGone || peer.was_gone);
    view.state = std::move(peer.state);
  }
  views[static_cast<size_t>(own.rank)] = {
      .state = own, .life = diagnose::Life::kRuns, .is_fresh = true};
  return views;
}

void HeartbeatStore::look() const {
  const std::lock_guard lock(shared_->mutex);
  const auto now = Clock::now();
  if (now - shared_->looked_at > 2 * shared_->options.heartbeat) shared_->went_on_at = now;
  shared_->looked_at = now;
}

diagnose::StoreView HeartbeatStore::store() const {
  look();
  const std::lock_guard lock(shared_->mutex);
  diagnose::StoreView view{.lost = shared_->lost,
                           .server_rank = shared_->options.server_rank,
                           .server_outside = shared_->options.server_outside};
  if (shared_->asked_at)
    view.silent_s = std::chrono::duration<double>(Clock::now() -
                                                  std::max(*shared_->asked_at, shared_->went_on_at))
                        .count();
  return view;
}

bool HeartbeatStore::all_told() const {
  int64_t told = 0;
  {
    const std::lock_guard lock(shared_->mutex);
    told = shared_->told;
  }
  for (const diagnose::PeerView& view : peers()) {
    // Of those who can hear it no more, the ones that were not counted while they could.
    const bool is_absent = view.life == diagnose::Life::kGone ||
                           view.life == diagnose::Life::kStopped ||
                           (view.state && view.state->ended);
    told += is_absent && !(view.state && view.state->told);
  }
  return told >= shared_->options.world_size;
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
  return shared_->common->version;
}

void HeartbeatStore::wait_until(uint64_t seen, Clock::time_point until) {
  std::unique_lock lock(shared_->mutex);
  shared_->changed.wait_until(lock, until, [&] { return shared_->common->version != seen; });
}

void HeartbeatStore::wake() {
  const std::lock_guard lock(shared_->mutex);
  shared_->bump();
}

std::chrono::milliseconds HeartbeatStore::heartbeat() const { return shared_->options.heartbeat; }
std::chrono::milliseconds HeartbeatStore::fast_heartbeat() const {
  return shared_->options.heartbeat / 5;
}
std::chrono::milliseconds HeartbeatStore::pass() const { return shared_->options.pass(); }
double HeartbeatStore::stale_s() const {
  return 2.5 * std::chrono::duration<double>(shared_->options.heartbeat).count();
}

}  // namespace muster::distributed
