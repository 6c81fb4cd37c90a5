#include "muster/distributed/monitor/monitor_core.h"

#include <algorithm>
#include <utility>

#include "muster/base/text.h"
#include "muster/distributed/call/last_word.h"
#include "muster/distributed/call/nameless_error.h"
#include "muster/distributed/monitor/monitored_work.h"
#include "muster/tensor/what_of.h"

namespace muster::distributed {
namespace {

using std::chrono::milliseconds;

milliseconds heartbeat_of(const MonitorRequest& request, const MonitorOptions& options) {
  if (options.heartbeat.count() > 0) return options.heartbeat;
  const milliseconds longest(request.threads ? 100 : 1000);
  return std::clamp(request.timeout / 10, std::min(milliseconds(50), longest), longest);
}

/// `who` without its first words, where `said` has them: "rank 1 has ended", of "rank 1 has ended: it
/// closed the group"; or all of why it failed.
std::string unsaid(const std::string& who, const std::string& said) {
  for (const std::string_view end : {"; ", ": "}) {
    const std::string first = who.substr(0, who.find(end));
    if (said.find(first) == std::string::npos) continue;
    return who.substr(std::min(who.size(), first.size() + end.size()));
  }
  return who;
}

const Error* as_ours(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& ours) {
    return &ours;  // lives as long as `error`
  } catch (...) {
    return nullptr;
  }
}

}  // namespace

Monitor::Monitor(MonitorRequest request,
                 MonitorOptions options,
                 BackendTraits traits,
                 const Monitor* parent)
    : request_(std::move(request)),
      options_(std::move(options)),
      traits_(std::move(traits)),
      recorder_(std::make_shared<diagnose::FlightRecorder>(options_.records)),
      heartbeats_(request_.store,
                  {.rank = request_.rank,
                   .world_size = request_.world_size,
                   .server_rank = request_.server_rank,
                   .heartbeat = heartbeat_of(request_, options_),
                   .path = request_.path,
                   .server_outside = request_.server_outside},
                  recorder_,
                  parent == nullptr ? nullptr : &parent->heartbeats_),
      loop_(parent == nullptr ? std::make_shared<MonitorLoop>() : parent->loop_),
      timeout_ms_(request_.timeout.count()) {}

Monitor::~Monitor() = default;

void Monitor::start(std::function<void()> abort, LastWord* last_word) {
  abort_ = std::move(abort);
  last_word_ = last_word;
  hear_own_failures();
  started_ = true;
  loop_->add(shared_from_this());
}

void Monitor::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  heartbeats_.wake();
  if (!std::exchange(started_, false)) return;
  loop_->remove(*this);
  std::string why;
  {
    const std::lock_guard lock(mutex_);
    why = why_;
    last_word_ = nullptr;  // works may hold the monitor for longer than there is a backend
  }
  heartbeats_.close(threw_, why);
}

double Monitor::age_s(const diagnose::OpRecord& op) {
  return static_cast<double>(diagnose::FlightRecorder::now_ns() - op.posted_ns) * 1e-9;
}

bool Monitor::stopping() {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

void Monitor::check_open(const diagnose::OpRecord& op) const {
  if (!has_failed()) return;
  const std::lock_guard lock(mutex_);
  const Verdict verdict = verdict_from(verdict_);
  throw environment_error({.refused = concat(describe(op), " of group ", options_.group),
                           .rule = "the group has failed before: " + verdict.text,
                           .hint = verdict.hint});
}

void Monitor::add(const MonitoredWorkPtr& work) {
  const std::lock_guard lock(mutex_);
  work->place_ = open_.insert(open_.end(), work);
  work->listed_ = true;
}

void Monitor::remove(MonitoredWork& work) {
  MonitoredWorkPtr last;  // dropped without the lock
  const std::lock_guard lock(mutex_);
  if (!work.listed_) return;
  work.listed_ = false;
  last = std::move(*work.place_);
  open_.erase(work.place_);
}

void Monitor::failed(const MonitoredWorkPtr& work, std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    if (!stopping_) {
      failures_.push_back({work, error});
      error = nullptr;
    }
  }
  if (error)
    work->complete(error);
  else
    heartbeats_.wake();
}

std::vector<MonitoredWorkPtr> Monitor::open_works() {
  const std::lock_guard lock(mutex_);
  return {open_.begin(), open_.end()};
}

bool Monitor::look(Clock::time_point& next) {
  if (stopping()) {
    close();
    return false;
  }
  next = std::min(next, tick_or_fail());
  const std::lock_guard lock(mutex_);
  if (!failures_.empty()) next = Clock::now();
  return true;
}

void Monitor::close() {
  std::vector<Failure> left;
  {
    const std::lock_guard lock(mutex_);
    left.swap(failures_);
  }
  for (const Failure& failure : left) failure.work->complete(failure.error);
  let_go();
}

/// Works that are not through hold the monitor, as it holds them.
void Monitor::let_go() {
  std::list<MonitoredWorkPtr> works;  // dropped without the lock
  const std::lock_guard lock(mutex_);
  for (const MonitoredWorkPtr& work : open_) work->listed_ = false;
  works.swap(open_);
}

/// Works that nobody waits for end unseen: asked here. One that only we hold is let go.
void Monitor::poll(const std::vector<MonitoredWorkPtr>& works) {
  for (const MonitoredWorkPtr& work : works) {
    if (work->follows() || work->is_awaited()) continue;
    if (work.use_count() <= 2 && diagnose::is_point_to_point(work->record().kind))
      remove(*work);
    else
      work->isCompleted();
  }
}

MonitoredWorkPtr Monitor::oldest(const std::vector<MonitoredWorkPtr>& works) const {
  for (const MonitoredWorkPtr& work : works) {
    if (work->follows() || work->is_awaited() || !diagnose::is_point_to_point(work->record().kind))
      return work;
  }
  return {};
}

/// As heartbeats tell, and of a rank whose last one did not come, as its backend does.
std::vector<diagnose::PeerView> Monitor::peers() const {
  std::vector<diagnose::PeerView> peers = heartbeats_.peers();
  if (last_word_ == nullptr) return peers;
  for (int rank = 0; rank < request_.world_size; ++rank) {
    std::optional<diagnose::PeerState>& state = peers[static_cast<size_t>(rank)].state;
    if (rank == request_.rank || (state && state->ended)) continue;
    const std::optional<std::string> word = last_word_->last_word(rank);
    if (!word) continue;
    if (!state) state = {.rank = rank};
    state->ended = state->threw = true;
    state->why = *word;
  }
  return peers;
}

diagnose::Diagnosis Monitor::diagnose_now(const diagnose::OpRecord& op) const {
  return diagnose::diagnose({.op = op, .waited_s = age_s(op), .rank = request_.rank},
                            peers(),
                            heartbeats_.store(),
                            heartbeats_.stale_s());
}

std::optional<diagnose::Diagnosis> Monitor::stopped_now(const diagnose::OpRecord& op) const {
  diagnose::Diagnosis diagnosis = diagnose_now(op);
  if (diagnosis.kind != diagnose::Diagnosis::Kind::kStopped) return std::nullopt;
  return diagnosis;
}

/// Whether to fail before the backend does. Other operations are believed once every rank has shown
/// its own twice: a call that its backend refuses is taken back. So is one behind it, which is
/// another difference; what is none of these stays the first one, until it is too long ago to be
/// shown. A difference that not all heartbeats show yet is given the time in which all ranks hear of
/// the alarm and show more; one that none shows, four times as long: who would show it may get no
/// core, and without the calls nobody is named. A call that does not stand yet says nothing, unless
/// its backend keeps it for very long: a thread may get no core between the call and its refusal.
bool Monitor::is_proven(const diagnose::Diagnosis& diagnosis, bool is_late) {
  if (diagnosis.kind == diagnose::Diagnosis::Kind::kGone) return is_late && diagnosis.certain;
  if (diagnosis.kind != diagnose::Diagnosis::Kind::kMismatch) {
    difference_.reset();
    return false;
  }
  const WaitedTime none_yet(half_heartbeat());
  if (!difference_) difference_ = {diagnosis.who, Clock::now(), none_yet, none_yet};
  if (diagnosis.certain && diagnosis.who != difference_->which)
    difference_ = {diagnosis.who, Clock::now(), none_yet, difference_->any};
  const auto show_more = 2 * heartbeats_.heartbeat() + heartbeats_.pass();
  if (diagnosis.may_pass) return difference_->any.look() > 10 * show_more;
  return (diagnosis.certain && heartbeats_.is_fresh(difference_->since)) ||
         (difference_->seen.look() > show_more && !diagnosis.is_unseen) ||
         difference_->any.look() > 4 * show_more;
}

/// Whether to conclude now that the time of an operation is over. Who has not seen one heartbeat of
/// a rank that is missing (this process was stopped, say) gives it the time in which they come.
bool Monitor::is_certain(const diagnose::OpRecord& op, const diagnose::Diagnosis& diagnosis) {
  if (diagnosis.kind != diagnose::Diagnosis::Kind::kUnknown || diagnosis.certain) return true;
  if (!over_ || over_->op != op.id) over_ = {op.id, WaitedTime(half_heartbeat())};
  return over_->waited.look() > 3 * heartbeats_.heartbeat() + heartbeats_.pass();
}

Monitor::Clock::time_point Monitor::tick() {
  const auto now = Clock::now();
  heartbeats_.look();
  if (has_failed()) {
    fail_works();  // posted while the group failed
    return now + heartbeats_.heartbeat();
  }
  if (const auto verdict = heartbeats_.verdict()) {
    fail_group(*verdict);
    return now + heartbeats_.heartbeat();
  }
  std::vector<Failure> failures;
  {
    const std::lock_guard lock(mutex_);
    failures.swap(failures_);
  }
  for (Failure& failure : failures) handle(std::move(failure));
  const auto works = open_works();
  poll(works);
  const MonitoredWorkPtr first = oldest(works);
  const bool differs =
      !traits_.names_culprits && (suspects_ > 0 || heartbeats_.neighbour_disagrees());
  const double usual_s = static_cast<double>(recorder_->usual_ns()) * 1e-9;
  const double beat_s = std::chrono::duration<double>(heartbeats_.heartbeat()).count();
  const bool is_late = first && age_s(first->record()) > std::max(2 * beat_s, 8 * usual_s);
  heartbeats_.set_alarm(differs || is_late);
  if (!differs && !is_late) {
    difference_.reset();
    if (!first || !first->follows()) return now + heartbeats_.heartbeat();
    return now + std::min<Clock::duration>(heartbeats_.heartbeat(), timeout());
  }
  const diagnose::OpRecord op =
      first ? first->record() : recorder_->standing().last.value_or(diagnose::OpRecord{});
  const diagnose::Diagnosis diagnosis = diagnose_now(op);
  const double left_s =
      first ? std::chrono::duration<double>(limit_of(*first)).count() - age_s(op) : 1e9;
  const bool is_over = first && first->follows() && left_s <= 0;
  if (is_over && is_certain(op, diagnosis))
    conclude(diagnosis, concat("it is not done after ", fixed(age_s(op), 1), " s"));
  else if (!traits_.names_culprits && is_proven(diagnosis, is_late))
    conclude(diagnosis, "");
  const double least_s = is_over ? beat_s / 20 : 0.001;
  const auto pause = std::chrono::duration<double>(std::clamp(left_s, least_s, beat_s / 5));
  return now + std::chrono::duration_cast<Clock::duration>(pause);
}

void Monitor::handle(Failure failure) {
  const diagnose::OpRecord& op = failure.work->record();
  if (has_failed()) return failure.work->complete(std::make_exception_ptr(failure_of(op)));
  const Error* ours = as_ours(failure.error);
  if (ours != nullptr && dynamic_cast<const NamelessError*>(ours) == nullptr)
    return add_to_backends_error(failure, *ours);
  // Heartbeats that have stopped show as such after three of them; see HeartbeatStore::stale_s.
  const diagnose::Diagnosis diagnosis =
      find_out(op, 3 * heartbeats_.heartbeat() + heartbeats_.pass());
  conclude(diagnosis, "the backend says: " + first_line(tensor::what_of(failure.error)));
}

/// Waits until the diagnosis is certain, or another rank has pronounced the verdict. A pause of this
/// process does not count: nobody's silence was heard in it.
diagnose::Diagnosis Monitor::find_out(const diagnose::OpRecord& op, milliseconds patience) {
  heartbeats_.set_alarm(true);
  WaitedTime waited(half_heartbeat());
  while (true) {
    const uint64_t seen = heartbeats_.version();
    diagnose::Diagnosis diagnosis = diagnose_now(op);
    if (diagnosis.certain || heartbeats_.verdict() || stopping() || waited.look() >= patience)
      return diagnosis;
    heartbeats_.wait_until(seen, Clock::now() + heartbeats_.fast_heartbeat());
  }
}

/// The backend has named the culprit: its words stay, and what it cannot know is added.
void Monitor::add_to_backends_error(const Failure& failure, const Error& error) {
  const diagnose::OpRecord& op = failure.work->record();
  // Before its time was over: the backend has seen a peer end.
  const bool saw_an_end =
      age_s(op) < 0.9 * std::chrono::duration<double>(limit_of(*failure.work)).count();
  heartbeats_.set_alarm(true);
  const auto start = Clock::now();  // behind the alarm: what is read since is fresh for both
  const Clock::duration patience =
      heartbeats_.heartbeat() + heartbeats_.fast_heartbeat() + heartbeats_.pass();
  WaitedTime waited(half_heartbeat());
  // Who is stopped may go on before all are heard: a launcher that sees the first rank end tells the
  // others to end, too.
  std::optional<diagnose::Diagnosis> stopped = stopped_now(op);
  while (!heartbeats_.is_fresh(start) && !heartbeats_.store().lost && waited.look() < patience &&
         !stopping()) {
    heartbeats_.wait_until(heartbeats_.version(), Clock::now() + heartbeats_.fast_heartbeat());
    if (!stopped) stopped = stopped_now(op);
  }
  // Behind the wait: of what came last the question above knows, and a diagnosis before it would not.
  diagnose::Diagnosis diagnosis = diagnose_now(op);
  if (stopped && diagnosis.kind != diagnose::Diagnosis::Kind::kMismatch) {
    stopped->common = diagnosis.common;
    diagnosis = *std::move(stopped);
  }
  // Who compared the ranks' calls has seen them all come; and who is late when one has ended is not
  // to blame.
  if (diagnosis.kind == diagnose::Diagnosis::Kind::kMissing &&
      (error.kind() == ErrorKind::kUsage || saw_an_end))
    diagnosis = {.common = diagnosis.common};
  ErrorText text = error.text();
  std::vector<std::string> parts;
  if (!text.rule.empty()) parts.push_back(text.rule);
  using Kind = diagnose::Diagnosis::Kind;
  const bool adds = diagnosis.kind != Kind::kMismatch && diagnosis.kind != Kind::kAllThere &&
                    diagnosis.kind != Kind::kUnknown;
  std::string who =
      diagnosis.kind == Kind::kEnded ? unsaid(diagnosis.who, text.refused) : diagnosis.who;
  if (adds && !who.empty()) parts.push_back(std::move(who));
  if (diagnosis.kind == Kind::kMismatch) parts.push_back("it was " + title(op));
  if (!diagnosis.common.empty()) parts.push_back(diagnosis.common);
  if (const std::string words = world_words(diagnosis.culprits); !words.empty())
    parts.push_back(words);
  text.rule = join(parts, "; ");
  if (text.hint.empty()) text.hint = diagnosis.hint;
  const std::string record = write_record(text.refused + ": " + text.rule);
  if (!record.empty()) text.hint += concat(text.hint.empty() ? "" : "; ", record);
  if (error.kind() == ErrorKind::kEnvironment)
    tell_launcher({.text = text.refused + ": " + text.rule,
                   .hint = {},
                   .kind = diagnosis.kind,
                   .culprits = diagnosis.culprits},
                  saw_an_end);
  failure.work->complete(std::make_exception_ptr(Error(error.kind(), text)));
}

milliseconds Monitor::limit_of(const MonitoredWork& work) const {
  return work.timeout().count() > 0 ? work.timeout() : timeout();
}

}  // namespace muster::distributed
