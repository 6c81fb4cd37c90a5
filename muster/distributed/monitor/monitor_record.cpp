// What a rank leaves behind when its group fails: the flight record, and a note for its launcher.
#include <algorithm>
#include <filesystem>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/diagnose/record/failure_note.h"
#include "muster/distributed/monitor/monitor_core.h"

namespace muster::distributed {

/// "flight record: FILE", or why there is none; empty if none is wanted.
std::string Monitor::write_record(const std::string& verdict) const {
  if (options_.flight_dir.empty()) return "";
  Json json;
  json["format"] = "muster-flight/1";
  json["group"] = options_.group;
  json["backend"] = traits_.name;
  json["rank"] = request_.rank;
  json["world_size"] = request_.world_size;
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
  const std::filesystem::path file = std::filesystem::path(options_.flight_dir) /
                                     concat(options_.group, "-rank-", request_.rank, ".json");
  try {
    std::filesystem::create_directories(options_.flight_dir);
    write_file_atomic(file, json_text(json, 1) + '\n');
    return "flight record: " + file.string();
  } catch (const std::exception& error) {
    return concat("no flight record: ", std::string(error.what()));
  }
}

/// That this rank fails only because others have, where it does: one that does not come, or of which
/// nothing is known, need not have failed. See Note [Who was first].
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
  diagnose::note_failure_of_peers(verdict.text, ended ? culprits : std::vector<int>());
}

void Monitor::succeeded(const diagnose::OpRecord& op) const {
  if (!request_.threads) diagnose::note_success_with_peers(op.posted_ns);
}

}  // namespace muster::distributed
