// event_from: the inverse of payload_text.
#include <limits>
#include <optional>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tune/core/event.h"
#include "muster/tune/core/payload.h"

namespace muster::tune {
namespace {

std::string text_if(PayloadReader& in, std::string_view key) {
  return in.skip(key) ? in.text() : std::string();
}

/// Items up to `close`, which is stepped over.
template <class Read>
void read_list(PayloadReader& in, std::string_view close, Read read) {
  if (in.skip(close)) return;
  do {
    read();
  } while (in.skip(","));
  in.expect(close);
}

int32_t read_attempt(PayloadReader& in) {
  in.expect("{\"attempt\":");
  return static_cast<int32_t>(in.integer());  // one that does not fit is not written back equal
}

/// What stands behind `"point":[`.
void read_point(PayloadReader& in, Point& point, Values& values) {
  read_list(in, "]", [&] { point.push_back(in.number()); });
  in.expect(",\"values\":[");
  read_list(in, "]", [&] { values.push_back(in.value()); });
}

TrialAdded read_added(PayloadReader& in) {
  TrialAdded what;
  in.expect("{\"point\":[");
  read_point(in, what.point, what.values);
  what.given = in.skip(",\"given\":true");
  if (in.skip(",\"adopted\":")) what.adopted = in.integer();
  what.reason = text_if(in, ",\"reason\":");
  what.memo = text_if(in, ",\"memo\":");
  if (in.skip(",\"known\":")) what.known = in.integer();
  return what;
}

AttemptStarted read_started(PayloadReader& in) {
  AttemptStarted what;
  what.attempt = read_attempt(in);
  what.from_checkpoint = text_if(in, ",\"from_checkpoint\":");
  what.reason = text_if(in, ",\"reason\":");
  what.asked = was_asked_in_words(what.reason);
  if (in.skip(",\"asked\":true")) what.asked = true;
  if (in.skip(",\"asked\":false")) what.asked = false;
  if (in.skip(",\"donor\":")) what.donor = in.integer();
  if (in.skip(",\"point\":[")) read_point(in, what.point, what.values);
  return what;
}

Reported read_reported(PayloadReader& in) {
  Reported what;
  what.attempt = read_attempt(in);
  in.expect(",\"t\":");
  what.t = in.integer();
  in.expect(",\"sequence\":");
  what.report.sequence = in.integer();
  if (in.skip(",\"step\":")) what.report.step = in.integer();
  in.expect(",\"metrics\":{");
  read_list(in, "}", [&] {
    std::string name = in.text();
    in.expect(":");
    what.report.metrics.emplace_back(std::move(name), in.number());
  });
  what.report.checkpoint = text_if(in, ",\"checkpoint\":");
  in.expect(",\"action\":");
  what.decision.action = static_cast<Action>(in.word(kActionWords));
  what.decision.complete = in.skip(",\"complete\":true");
  what.decision.reason = text_if(in, ",\"reason\":");
  return what;
}

AttemptEnded read_ended(PayloadReader& in) {
  AttemptEnded what;
  what.attempt = read_attempt(in);
  in.expect(",\"failure\":");
  what.failure = static_cast<Failure>(in.word(kFailureWords));
  what.message = text_if(in, ",\"message\":");
  in.expect(",\"then\":");
  what.then = static_cast<TrialState>(in.word(kStateWords));
  if (in.skip(",\"retry_in_s\":")) what.retry_in_s = in.number();
  what.ordered = in.skip(",\"ordered\":true");
  what.by_user = in.skip(",\"by_user\":true");
  return what;
}

TunerNote read_note(PayloadReader& in) {
  in.expect("{\"text\":");
  TunerNote note{.text = in.text()};
  note.session = in.skip(",\"session\":true");
  note.forgives = in.skip(",\"forgives\":true");
  if (in.skip(",\"in_vain\":")) note.in_vain = in.integer();
  note.last = in.skip(",\"last\":true");
  note.folder = text_if(in, ",\"folder\":");
  return note;
}

OutsideTrial read_outside(PayloadReader& in) {
  OutsideTrial what;
  in.expect("{\"number\":");
  what.number = in.integer();
  in.expect(",\"point\":[");
  read_list(in, "]", [&] { what.point.push_back(in.number()); });
  in.expect(",\"state\":");
  what.state = static_cast<TrialState>(in.word(kStateWords));
  in.expect(",\"metric\":");
  what.metric = in.number();
  in.expect(",\"step\":");
  what.step = in.integer();
  if (in.skip(",\"results\":[")) read_list(in, "]", [&] { what.results.push_back(in.number()); });
  if (in.skip(",\"violation\":")) what.violation = in.number();
  return what;
}

CheckpointSaved read_saved(PayloadReader& in) {
  CheckpointSaved what;
  what.attempt = read_attempt(in);
  in.expect(",\"t\":");
  what.t = in.integer();
  in.expect(",\"checkpoint\":");
  what.checkpoint = in.text();
  return what;
}

/// A StopOrdered, PauseOrdered or ContinueOrdered.
template <class Ordered>
Ordered read_order(PayloadReader& in) {
  in.expect("{\"reason\":");
  return {.reason = in.text()};
}

using What = decltype(Event::what);

std::optional<What> read_what(PayloadReader& in, std::string_view kind) {
  if (kind == "trial_added") return read_added(in);
  if (kind == "attempt_started") return read_started(in);
  if (kind == "reported") return read_reported(in);
  if (kind == "attempt_ended") return read_ended(in);
  if (kind == "tuner") return read_note(in);
  if (kind == "outside_trial") return read_outside(in);
  if (kind == "checkpoint") return read_saved(in);
  if (kind == "stop_ordered") return read_order<StopOrdered>(in);
  if (kind == "pause_ordered") return read_order<PauseOrdered>(in);
  if (kind == "continue_ordered") return read_order<ContinueOrdered>(in);
  return std::nullopt;
}

Error not_readable(int64_t id, std::string rule, std::string_view value) {
  constexpr size_t kMostShown = 200;
  return usage_error({.refused = concat("event ", id, " of the study's log cannot be read"),
                      .rule = std::move(rule),
                      .value = std::string(value.substr(0, kMostShown)),
                      .hint = "the database was altered, or a newer version of muster wrote it"});
}

}  // namespace

Event event_from(
    int64_t id, double time_s, int64_t trial, std::string_view kind, std::string_view payload) {
  PayloadReader in(payload);
  try {
    auto what = read_what(in, kind);
    if (!what) throw not_readable(id, "there is no such kind of event", kind);
    in.expect("}");
    in.end();
    Event event{.id = id, .time_s = time_s, .trial = trial, .what = std::move(*what)};
    if (payload_text(event) != payload)
      throw not_readable(id, "it is not as it is written", payload);
    return event;
  } catch (const PayloadReader::BadPayload& bad) {
    throw not_readable(id, concat("fault at byte ", bad.at), payload);
  }
}

}  // namespace muster::tune
