#include "muster/tune/core/event.h"

#include <array>

#include "muster/tune/core/payload.h"

namespace muster::tune {
namespace {

constexpr std::array<std::string_view, 10> kKinds = {"trial_added",
                                                     "attempt_started",
                                                     "reported",
                                                     "attempt_ended",
                                                     "tuner",
                                                     "outside_trial",
                                                     "checkpoint",
                                                     "stop_ordered",
                                                     "pause_ordered",
                                                     "continue_ordered"};

/// `,"key":"text"` unless the text is empty.
void add_text(PayloadWriter& out, std::string_view key, std::string_view text) {
  if (text.empty()) return;
  out.raw(key);
  out.text(text);
}

template <class Items, class Write>
void add_list(PayloadWriter& out, const Items& items, Write write) {
  bool first = true;
  for (const auto& item : items) {
    if (!first) out.raw(",");
    first = false;
    write(item);
  }
}

void add_point(PayloadWriter& out, const Point& point, const Values& values) {
  out.raw("\"point\":[");
  add_list(out, point, [&](double x) { out.number(x); });
  out.raw("],\"values\":[");
  add_list(out, values, [&](const Value& value) { out.value(value); });
  out.raw("]");
}

void write(PayloadWriter& out, const TrialAdded& what) {
  out.raw("{");
  add_point(out, what.point, what.values);
  if (what.given) out.raw(",\"given\":true");
  if (what.adopted >= 0) {
    out.raw(",\"adopted\":");
    out.integer(what.adopted);
  }
  add_text(out, ",\"reason\":", what.reason);
  add_text(out, ",\"memo\":", what.memo);
  if (what.known >= 0) {
    out.raw(",\"known\":");
    out.integer(what.known);
  }
}

void write(PayloadWriter& out, const AttemptStarted& what) {
  out.raw("{\"attempt\":");
  out.integer(what.attempt);
  add_text(out, ",\"from_checkpoint\":", what.from_checkpoint);
  add_text(out, ",\"reason\":", what.reason);
  if (what.asked != was_asked_in_words(what.reason))
    out.raw(what.asked ? ",\"asked\":true" : ",\"asked\":false");
  if (what.donor >= 0) {
    out.raw(",\"donor\":");
    out.integer(what.donor);
  }
  if (what.point.empty()) return;
  out.raw(",");
  add_point(out, what.point, what.values);
}

void write(PayloadWriter& out, const Reported& what) {
  out.raw("{\"attempt\":");
  out.integer(what.attempt);
  out.raw(",\"t\":");
  out.integer(what.t);
  out.raw(",\"sequence\":");
  out.integer(what.report.sequence);
  if (what.report.step) {
    out.raw(",\"step\":");
    out.integer(*what.report.step);
  }
  out.raw(",\"metrics\":{");
  add_list(out, what.report.metrics, [&](const auto& metric) {
    out.text(metric.first);
    out.raw(":");
    out.number(metric.second);
  });
  out.raw("}");
  add_text(out, ",\"checkpoint\":", what.report.checkpoint);
  out.raw(",\"action\":");
  out.text(kActionWords[static_cast<size_t>(what.decision.action)]);
  if (what.decision.complete) out.raw(",\"complete\":true");
  add_text(out, ",\"reason\":", what.decision.reason);
}

void write(PayloadWriter& out, const AttemptEnded& what) {
  out.raw("{\"attempt\":");
  out.integer(what.attempt);
  out.raw(",\"failure\":");
  out.text(kFailureWords[static_cast<size_t>(what.failure)]);
  add_text(out, ",\"message\":", what.message);
  out.raw(",\"then\":");
  out.text(kStateWords[static_cast<size_t>(what.then)]);
  if (what.retry_in_s != 0) {
    out.raw(",\"retry_in_s\":");
    out.number(what.retry_in_s);
  }
  if (what.ordered) out.raw(",\"ordered\":true");
  if (what.by_user) out.raw(",\"by_user\":true");
}

void write_order(PayloadWriter& out, const std::string& reason) {
  out.raw("{\"reason\":");
  out.text(reason);
}

void write(PayloadWriter& out, const StopOrdered& what) { write_order(out, what.reason); }
void write(PayloadWriter& out, const PauseOrdered& what) { write_order(out, what.reason); }
void write(PayloadWriter& out, const ContinueOrdered& what) { write_order(out, what.reason); }

void write(PayloadWriter& out, const TunerNote& what) {
  out.raw("{\"text\":");
  out.text(what.text);
  if (what.session) out.raw(",\"session\":true");
  if (what.forgives) out.raw(",\"forgives\":true");
  if (what.in_vain >= 0) {
    out.raw(",\"in_vain\":");
    out.integer(what.in_vain);
  }
  if (what.last) out.raw(",\"last\":true");
  add_text(out, ",\"folder\":", what.folder);
}

void write(PayloadWriter& out, const OutsideTrial& what) {
  out.raw("{\"number\":");
  out.integer(what.number);
  out.raw(",\"point\":[");
  add_list(out, what.point, [&](double x) { out.number(x); });
  out.raw("],\"state\":");
  out.text(kStateWords[static_cast<size_t>(what.state)]);
  out.raw(",\"metric\":");
  out.number(what.metric);
  out.raw(",\"step\":");
  out.integer(what.step);
  if (!what.results.empty()) {
    out.raw(",\"results\":[");
    add_list(out, what.results, [&](double x) { out.number(x); });
    out.raw("]");
  }
  if (what.violation == 0) return;
  out.raw(",\"violation\":");
  out.number(what.violation);
}

void write(PayloadWriter& out, const CheckpointSaved& what) {
  out.raw("{\"attempt\":");
  out.integer(what.attempt);
  out.raw(",\"t\":");
  out.integer(what.t);
  out.raw(",\"checkpoint\":");
  out.text(what.checkpoint);
}

}  // namespace

bool was_asked_in_words(std::string_view reason) { return reason.starts_with("asked"); }

std::string_view kind_of(const Event& event) { return kKinds[event.what.index()]; }

std::string payload_text(const Event& event) {
  PayloadWriter out;
  std::visit([&](const auto& what) { write(out, what); }, event.what);
  out.raw("}");
  return std::move(out).take();
}

}  // namespace muster::tune
