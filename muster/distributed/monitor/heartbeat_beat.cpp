// The thread of a HeartbeatStore.
#include <algorithm>
#include <list>
#include <thread>
#include <utility>

#include <pthread.h>
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

c10::intrusive_ptr<c10d::Store> below(const c10::intrusive_ptr<c10d::Store>& store,
                                      const std::string& path) {
  if (path.empty()) return store;
  return c10::make_intrusive<c10d::PrefixStore>(path, store);
}

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
  const auto store = c10::make_intrusive<c10d::PrefixStore>("monitor", shared.common->store);
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

/// One board, as the thread that talks to the store serves it. Everything of it is done without the
/// lock but where it says.
class HeartbeatStore::Beat {
 public:
  Beat(std::shared_ptr<Shared> shared, const c10::intrusive_ptr<c10d::Store>& store)
      : shared_(std::move(shared)),
        s_(*shared_),
        options_(s_.options),
        store_(c10::make_intrusive<c10d::PrefixStore>("monitor", below(store, options_.path))) {}

  const std::shared_ptr<Shared>& board() const { return shared_; }

  /// Writes this rank's state. True if that was the last one.
  bool tell() {
    diagnose::PeerState mine;
    {
      const std::lock_guard lock(s_.mutex);
      next_ = Clock::now() + (s_.fast() ? options_.heartbeat / 5 : options_.heartbeat);
      alarm_ = s_.alarm.has_value();
      reads_others_ = alarm_ || s_.verdict;
      needs_server_ = !s_.server && options_.server_rank >= 0;
      proposal_ = s_.proposal;
      mine = diagnose::peer_state_of(*s_.recorder, s_.fast() ? diagnose::kMaxBriefs : kCalmOps);
      mine.ended = s_.stopping;
      mine.threw = s_.threw;
      mine.why = s_.why;
      mine.told = s_.verdict.has_value();
      mine.beat = ++s_.beats;
      note_request(true);
    }
    mine.rank = options_.rank;
    mine.process = s_.process;
    store_->set(state_key(options_.rank), peer_state_text(mine));
    return mine.ended;
  }

  /// Reads the verdict (or writes it), alarms, the neighbour, and in alarm the others in turn;
  /// after the verdict, too: who knows it?
  void learn() {
    const std::string verdict = store_->compareSet(kVerdictKey, std::string(), proposal_);
    const int64_t alarms = store_->add("alarm", alarm_ ? 1 : 0);
    std::vector<Look> looks;
    for (const int rank : to_read()) looks.push_back(look_at(rank));
    if (!verdict.empty()) told_ = store_->add("told", std::exchange(has_told_, true) ? 0 : 1);
    const std::lock_guard lock(s_.mutex);
    s_.told = told_;
    note_request(false);
    for (Look& look : looks) note(std::move(look));
    const bool is_news = !verdict.empty() && !s_.verdict;
    if (is_news) s_.verdict = verdict;
    s_.alarms_heard = alarms != s_.alarms_seen ? 5 : std::max(0, s_.alarms_heard - 1);
    s_.alarms_seen = alarms;
    const auto pause = s_.fast() ? options_.heartbeat / 5 : options_.heartbeat;
    next_ = is_news ? Clock::now() : Clock::now() + pause;  // the verdict is acknowledged at once
    s_.bump();
  }

  /// Under the lock: whether it is time to tell, and to learn, again.
  bool is_due() const {
    return Clock::now() >= next_ || s_.stopping || (s_.alarm.has_value() && !alarm_) ||
           (s_.proposal != proposal_ && !s_.verdict);
  }
  Clock::time_point next() const { return next_; }

  /// Answers what was asked meanwhile.
  void answer() {
    std::unique_lock lock(s_.mutex);
    const auto questions = std::exchange(s_.questions, {});
    if (questions.empty()) return;
    note_request(true);
    lock.unlock();
    std::vector<bool> answers;
    for (const auto& question : questions) answers.push_back(agrees(*question));
    lock.lock();
    note_request(false);
    for (size_t i = 0; i < questions.size(); ++i) questions[i]->agrees = answers[i];
    s_.bump();
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

 private:
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

  /// Under the lock: whether a request is on its way, which all boards wait for.
  void note_request(bool is_asked) {
    for (const auto& board : s_.common->boards)
      board->asked_at = is_asked ? std::optional(Clock::now()) : std::nullopt;
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

  const std::shared_ptr<Shared> shared_;
  Shared& s_;
  const HeartbeatOptions options_;
  const c10::intrusive_ptr<c10d::Store> store_;
  std::string proposal_;  // as of the last heartbeat
  bool alarm_ = false, reads_others_ = false, needs_server_ = false;
  Clock::time_point next_{};
  int turn_ = 1;  // who was read last, in steps behind this rank; the neighbour, 1, always is
  bool has_told_ = false;
  int64_t told_ = 0;
};

/// All boards of a rank, in turn.
class HeartbeatStore::Beats {
 public:
  Beats(std::shared_ptr<Common> common, c10::intrusive_ptr<c10d::Store> store)
      : common_(std::move(common)), store_(std::move(store)) {}

  void run() {
    adopt();
    // A request to a server that is gone prints c10d's warning: not at the end of a good run.
    while (!server_is_gone()) {
      for (auto beat = beats_.begin(); beat != beats_.end();) {
        if (!is_due(**beat)) {
          ++beat;
        } else if ((*beat)->tell()) {
          if (end(*beat)) return;
          beat = beats_.erase(beat);
        } else {
          (*beat++)->learn();
        }
      }
      pause();
    }
  }

 private:
  /// Takes boards that were added. The first of all is that of the group that the store is for.
  void adopt() {
    const std::lock_guard lock(common_->mutex);
    for (const auto& board : common_->boards) {
      const bool known = std::any_of(
          beats_.begin(), beats_.end(), [&](const auto& beat) { return beat->board() == board; });
      if (!known) beats_.push_back(std::make_shared<Beat>(board, store_));
      if (!first_) first_ = beats_.back();
    }
  }

  bool is_due(const Beat& beat) const {
    const std::lock_guard lock(common_->mutex);
    return beat.is_due();
  }

  /// A board has told its last. True if it was the last board.
  bool end(const std::shared_ptr<Beat>& beat) {
    {
      const std::lock_guard lock(common_->mutex);
      std::erase(common_->boards, beat->board());
      for (const auto& board : common_->boards) board->asked_at.reset();
      common_->over = common_->boards.empty();
    }
    const HeartbeatOptions& options = first_->board()->options;
    if (common_->over && options.server_rank == options.rank) first_->wait_for_goodbyes();
    const std::lock_guard lock(common_->mutex);
    beat->board()->finished = true;
    beat->board()->bump();
    return common_->over;
  }

  /// Until a board is due, or new; answers questions meanwhile.
  void pause() {
    std::unique_lock lock(common_->mutex);
    const auto asks = [](const auto& beat) { return !beat->board()->questions.empty(); };
    const auto due = [](const auto& beat) { return beat->is_due(); };
    const auto any = [&](const auto& what) {
      return std::any_of(beats_.begin(), beats_.end(), what);
    };
    while (true) {
      auto next = Clock::now() + std::chrono::hours(1);
      for (const auto& beat : beats_) next = std::min(next, beat->next());
      const bool woken = common_->changed.wait_until(lock, next, [&] {
        return any(due) || any(asks) || common_->boards.size() != beats_.size();
      });
      const bool has_new = common_->boards.size() != beats_.size();
      const bool is_asked = any(asks);
      if (woken && !has_new && !is_asked) return;
      lock.unlock();
      if (has_new) adopt();
      for (const auto& beat : beats_) beat->answer();
      lock.lock();
      if (any(due)) return;
    }
  }

  bool server_is_gone() {
    const HeartbeatOptions& options = first_->board()->options;
    if (options.server_rank < 0 || options.server_rank == options.rank) return false;
    const std::lock_guard lock(common_->mutex);
    return common_->server && diagnose::life_of(*common_->server) == diagnose::Life::kGone;
  }

  const std::shared_ptr<Common> common_;
  const c10::intrusive_ptr<c10d::Store> store_;
  std::list<std::shared_ptr<Beat>> beats_;
  std::shared_ptr<Beat> first_;
};

void HeartbeatStore::run(const std::shared_ptr<Common>& common) {
  ::pthread_setname_np(::pthread_self(), "muster-beat");
  try {
    // A connection of its own: what another thread asks the store for may take until its timeout.
    const auto store = std::exchange(common->store, nullptr)->clone();
    Beats(common, store).run();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the store is lost
  }
  const std::lock_guard lock(common->mutex);
  common->over = true;
  for (const auto& board : std::exchange(common->boards, {})) {
    board->lost = true;
    board->asked_at.reset();
    board->finished = true;
  }
  ++common->version;
  common->changed.notify_all();
}

}  // namespace muster::distributed
