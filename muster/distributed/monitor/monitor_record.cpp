// What a rank leaves behind when its group fails: the flight record, and a note for its launcher.
#include <algorithm>
#include <filesystem>
#include <mutex>
#include <utility>
#include <vector>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/diagnose/record/failure_note.h"
#include "muster/distributed/call/last_word.h"
#include "muster/distributed/monitor/monitor_core.h"

namespace muster::distributed {

namespace {

/// Operations that this rank has called so far.
uint64_t calls_of(const diagnose::FlightRecorder& recorder) {
  const auto records = recorder.since(0);
  return records.empty() ? 0 : records.back().id + 1;
}

/// "flight record: FILE", or why there is none.
std::string write_json(const std::filesystem::path& file, const Json& json) {
  try {
    std::filesystem::create_directories(file.parent_path());
    write_file_atomic(file, json_text(json, 1) + '\n');
    return "flight record: " + file.string();
  } catch (const std::exception& error) {
    return concat("no flight record: ", std::string(error.what()));
  }
}

std::string own_verdict(int rank, const std::string& why) {
  return concat("rank ",
                rank,
                " failed by itself: ",
                why.empty() ? "an exception ended its part in the group" : first_line(why));
}

/// Records of groups that an exception took down before anybody said what it was. Who makes another
/// group has survived that.
struct Untold {
  std::mutex mutex;
  std::vector<diagnose::FailureListener> records;

  static Untold& of_process() {
    static Untold untold;
    return untold;
  }
  void add(diagnose::FailureListener record) {
    const std::lock_guard lock(mutex);
    records.push_back(std::move(record));
  }
  void clear() {
    std::vector<diagnose::FailureListener> survived;  // dropped without the lock
    const std::lock_guard lock(mutex);
    survived.swap(records);
  }
};

}  // namespace

Json Monitor::record_now(const std::string& verdict) const {
  Json json;
  json["format"] = "muster-flight/1";
  json["group"] = options_.group;
  json["backend"] = traits_.name;
  json["rank"] = request_.rank;
  json["world_size"] = request_.world_size;
  if (!request_.world_ranks.empty()) json["world_ranks"] = request_.world_ranks;
  json["verdict"] = verdict;
  json["now_ns"] = diagnose::FlightRecorder::now_ns();
  json["now_unix_s"] =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  json["heartbeats"] = Json::array();
  for (const diagnose::PeerView& peer : heartbeats_.peers()) {
    if (!peer.state) continue;
    Json state = parse_json(peer_state_text(*peer.state), "heartbeat");
    state["age_s"] = peer.age_s;
    json["heartbeats"].push_back(state);
  }
  json["operations"] = Json::array();
  for (const diagnose::OpRecord& record : recorder_->since(0))
    json["operations"].push_back(to_json(record));
  return json;
}

/// "flight record: FILE", or why there is none; empty if none is wanted.
std::string Monitor::write_record(const std::string& verdict) {
  if (options_.flight_dir.empty()) return "";
  const std::lock_guard lock(record_mutex_);
  recorded_calls_ = calls_of(*recorder_);
  return write_json(record_file(), record_now(verdict));
}

std::string Monitor::record_file() const {
  return (std::filesystem::path(options_.flight_dir) /
          concat(options_.group, "-rank-", world_rank(request_.rank), ".json"))
      .string();
}

std::string Monitor::title(const diagnose::OpRecord& op) const {
  std::string text = describe(op);
  if (!diagnose::is_point_to_point(op.kind)) text += concat(" #", op.sequence);
  text += concat(" of group ",
                 options_.group,
                 " (",
                 traits_.name,
                 ", rank ",
                 request_.rank,
                 " of ",
                 request_.world_size);
  if (!request_.world_ranks.empty()) text += concat(", world rank ", world_rank(request_.rank));
  if (op.step >= 0) text += concat(", step ", op.step);
  return text + ")";
}

int Monitor::world_rank(int rank) const {
  const std::vector<int>& ranks = request_.world_ranks;
  return ranks.empty() ? rank : ranks[static_cast<size_t>(rank)];
}

/// "rank 1 of group stages is rank 3 of the world": of these, or of all where there are none to name.
std::string Monitor::world_words(const std::vector<int>& ranks) const {
  if (request_.world_ranks.empty()) return "";
  std::vector<int> named = ranks;
  for (int rank = 0; ranks.empty() && rank < request_.world_size; ++rank) named.push_back(rank);
  std::vector<std::string> words;
  for (const int rank : named)
    words.push_back(concat("rank ",
                           rank,
                           " of group ",
                           options_.group,
                           " is rank ",
                           world_rank(rank),
                           " of the world"));
  return join(words, ", ");
}

/// Thread ranks are no processes: who runs them says which one failed.
void Monitor::hear_own_failures() {
  if (options_.flight_dir.empty() || request_.threads) return;
  Untold::of_process().clear();
  own_failures_ = diagnose::on_failure([weak = weak_from_this()](const std::string& message) {
    if (const auto self = weak.lock()) self->failed_by_itself(message);
  });
}

void Monitor::failed_by_itself(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (why_.empty() && !has_failed()) why_ = first_line(why);
    if (last_word_ != nullptr) last_word_->will_end_with(why_);
  }
  threw_ = true;
  if (options_.flight_dir.empty()) return;
  const std::lock_guard lock(record_mutex_);
  const uint64_t calls = calls_of(*recorder_);
  if (recorded_calls_ == calls) return;  // that of an operation, which it passes on
  recorded_calls_ = calls;
  Json json = record_now(own_verdict(request_.rank, why));
  const std::string file = record_file();
  write_json(file, json);
  if (!why.empty() || request_.threads) return;
  Untold::of_process().add(diagnose::on_failure(
      [json = std::move(json), file, rank = request_.rank](const std::string& message) mutable {
        json["verdict"] = own_verdict(rank, message);
        write_json(file, json);
      }));
}

/// That this rank fails only because others have, where it does: one that does not come, or of
/// which nothing is known, need not have failed. See Note [Who was first].
void Monitor::tell_launcher(const Verdict& verdict, bool saw_an_end) const {
  using Kind = diagnose::Diagnosis::Kind;
  const std::vector<int>& culprits = verdict.culprits;
  const bool is_ours =
      std::find(culprits.begin(), culprits.end(), request_.rank) != culprits.end() ||
      (verdict.kind == Kind::kMismatch && culprits.empty());
  const bool ended = verdict.kind == Kind::kGone || verdict.kind == Kind::kEnded;
  const bool others_failed =
      ended || saw_an_end || verdict.kind == Kind::kSilent || verdict.kind == Kind::kMismatch;
  if (request_.threads || is_ours || !others_failed) return;
  std::vector<int> named;
  for (const int rank : culprits)
    if (ended) named.push_back(world_rank(rank));
  diagnose::note_failure_of_peers(verdict.text, named);
}

void Monitor::succeeded(const diagnose::OpRecord& op) const {
  if (!request_.threads) diagnose::note_success_with_peers(op.posted_ns);
}

}  // namespace muster::distributed
