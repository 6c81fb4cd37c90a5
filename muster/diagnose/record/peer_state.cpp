#include "muster/diagnose/record/peer_state.h"

#include <algorithm>
#include <cmath>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

namespace muster::diagnose {
namespace {

/// The fourth of an operation that does not stand; the others have none.
constexpr const char* kDoesNotStand = "being called";

[[noreturn]] void refuse_peer_state(std::string_view where, std::string_view what) {
  throw usage_error({.refused = concat(where, ": ", what),
                     .rule = "a heartbeat is what another rank of this version of Muster writes"});
}

const Json& at(const Json& json, const char* key, std::string_view where) {
  const auto found = json.find(key);
  if (!json.is_object() || found == json.end()) refuse_peer_state(where, concat("no ", key));
  return *found;
}

uint64_t count(const Json& json, const char* key, std::string_view where) {
  const Json& value = at(json, key, where);
  if (!value.is_number_unsigned()) refuse_peer_state(where, concat(key, " is not a count"));
  return value.get<uint64_t>();
}

int64_t whole(const Json& json, const char* key, std::string_view where) {
  const Json& value = at(json, key, where);
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() || value.get<uint64_t>() <= uint64_t{INT64_MAX});
  if (!fits) refuse_peer_state(where, concat(key, " is not a number"));
  return value.get<int64_t>();
}

std::string text(const Json& json, const char* key, std::string_view where) {
  const Json& value = at(json, key, where);
  if (!value.is_string()) refuse_peer_state(where, concat(key, " is not text"));
  return value.get<std::string>();
}

bool flag(const Json& json, const char* key, std::string_view where) {
  const Json& value = at(json, key, where);
  if (!value.is_boolean()) refuse_peer_state(where, concat(key, " is not true or false"));
  return value.get<bool>();
}

const Json& list(const Json& json, const char* key, size_t longest, std::string_view where) {
  const Json& value = at(json, key, where);
  if (!value.is_array()) refuse_peer_state(where, concat(key, " is not a list"));
  if (value.size() > longest)
    refuse_peer_state(where, concat(value.size(), " ", key, ", at most ", longest));
  return value;
}

std::vector<ChainMark> marks_of(const Json& json, std::string_view where) {
  std::vector<ChainMark> marks;
  for (const Json& mark : json) {
    const bool fits = mark.is_array() && mark.size() == 2 && mark[0].is_number_unsigned() &&
                      mark[1].is_number_unsigned();
    if (!fits) refuse_peer_state(where, "a mark is not a pair of counts");
    const auto count = mark[0].get<uint64_t>();
    if (count <= (marks.empty() ? 0 : marks.back().count))
      refuse_peer_state(where, "marks do not rise");
    marks.push_back({count, mark[1].get<uint64_t>()});
  }
  return marks;
}

std::vector<OpBrief> ops_of(const Json& json, std::string_view where) {
  std::vector<OpBrief> ops;
  for (const Json& op : json) {
    const bool stands = op.is_array() && op.size() == 3;
    const bool fits = (stands || (op.is_array() && op.size() == 4 && op[3] == kDoesNotStand)) &&
                      op[0].is_number_unsigned() && op[1].is_number_unsigned() && op[2].is_string();
    if (!fits) refuse_peer_state(where, "an operation is not number, fingerprint, text");
    const auto sequence = op[0].get<uint64_t>();
    if (!ops.empty() && sequence <= ops.back().sequence)
      refuse_peer_state(where, "operations do not rise");
    ops.push_back({sequence, op[1].get<uint64_t>(), op[2].get<std::string>(), stands});
  }
  return ops;
}

}  // namespace

PeerState peer_state_of(const FlightRecorder& recorder, size_t ops) {
  const Standing standing = recorder.standing();
  PeerState state{.posted = standing.posted,
                  .completed = standing.completed,
                  .proven = standing.proven,
                  .survived = standing.survived};
  if (standing.waiting) {
    state.waits_for = describe(standing.waits_for);
    if (!is_point_to_point(standing.waits_for.kind))
      state.waits_for += concat(" #", standing.waits_for.sequence);
  }
  if (standing.last_ns != 0)
    state.since_s = static_cast<double>(FlightRecorder::now_ns() - standing.last_ns) * 1e-9;
  state.step = standing.step;
  state.main_thread = main_thread_state();
  state.activity = recorder.activity();
  state.marks = recorder.marks();
  for (const OpRecord& record : recorder.last_collectives(std::min(ops, kMaxBriefs)))
    state.ops.push_back({record.sequence, fingerprint(record), describe(record), record.stands});
  return state;
}

std::string peer_state_text(const PeerState& state) {
  Json json;
  json["rank"] = state.rank;
  json["beat"] = state.beat;
  json["host"] = state.process.host;
  json["hostname"] = state.process.hostname;
  json["pid"] = state.process.pid;
  json["started"] = state.process.started;
  json["posted"] = state.posted;
  json["completed"] = state.completed;
  json["proven"] = state.proven;
  json["survived"] = state.survived;
  json["waits_for"] = state.waits_for;
  json["since_s"] = state.since_s;
  json["step"] = state.step;
  json["ended"] = state.ended;
  json["threw"] = state.threw;
  if (!state.why.empty()) json["why"] = state.why;
  json["told"] = state.told;
  json["main_thread"] = state.main_thread;
  if (!state.activity.empty()) json["activity"] = state.activity;
  Json marks = Json::array();
  for (const ChainMark& mark : state.marks) marks.push_back({mark.count, mark.hash});
  json["marks"] = marks;
  Json ops = Json::array();
  for (const OpBrief& op : state.ops) {
    ops.push_back({op.sequence, op.fingerprint, op.text});
    if (!op.stands) ops.back().push_back(kDoesNotStand);
  }
  json["ops"] = ops;
  return json_text(json);
}

PeerState parse_peer_state(std::string_view bytes, std::string_view where) {
  const Json json = parse_json(bytes, where);
  if (!json.is_object()) refuse_peer_state(where, "not an object");
  PeerState state;
  state.rank = whole(json, "rank", where);
  state.beat = count(json, "beat", where);
  state.process = {.host = text(json, "host", where),
                   .pid = whole(json, "pid", where),
                   .started = count(json, "started", where),
                   .hostname = text(json, "hostname", where)};
  state.posted = count(json, "posted", where);
  state.completed = count(json, "completed", where);
  state.proven = count(json, "proven", where);
  state.survived = count(json, "survived", where);
  state.waits_for = text(json, "waits_for", where);
  const Json& since = at(json, "since_s", where);
  if (!since.is_number()) refuse_peer_state(where, "since_s is not a number");
  state.since_s = since.get<double>();
  state.step = whole(json, "step", where);
  state.ended = flag(json, "ended", where);
  state.threw = flag(json, "threw", where);
  if (json.contains("why")) state.why = text(json, "why", where);
  state.told = flag(json, "told", where);
  state.main_thread = text(json, "main_thread", where);
  if (json.contains("activity")) state.activity = text(json, "activity", where);
  state.marks = marks_of(list(json, "marks", kMaxMarks, where), where);
  state.ops = ops_of(list(json, "ops", kMaxBriefs, where), where);
  if (state.rank < 0 || state.completed > state.posted || state.proven > state.posted ||
      state.survived > state.proven || !std::isfinite(state.since_s))
    refuse_peer_state(where, "numbers out of range");
  return state;
}

}  // namespace muster::diagnose
