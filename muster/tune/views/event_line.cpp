// A study in words: a line per change, and the closing lines.
#include <algorithm>
#include <array>
#include <cmath>

#include "muster/base/text.h"
#include "muster/base/text_table.h"
#include "muster/tune/views/study_view.h"

namespace muster::tune {
namespace {

/// What ends or suspends a trial has a line; that it is complete is said when it has ended.
bool is_silent(const Reported& reported) {
  return reported.decision.action == Action::kContinue || reported.decision.complete;
}

/// The line of an event, by kind. An empty text: not worth one.
class LineOf {
 public:
  LineOf(const StudyView& view, const Event& event) : view_(view), event_(event) {}

  std::string operator()(const TrialAdded&) const { return ""; }  // its start has the line

  std::string operator()(const AttemptStarted& started) const {
    std::string out = head(started.attempt == 1 ? "started" : "goes on");
    if (started.attempt > 1) out += concat(", attempt ", started.attempt);
    if (!started.from_checkpoint.empty()) out += " from " + started.from_checkpoint;
    return out + because(why(started)) + parameters();
  }

  std::string operator()(const Reported& reported) const {
    const Decision& decision = reported.decision;
    if (is_silent(reported)) return "";
    if (!decision.reason.empty()) return head("") + decision.reason + parameters();
    const char* word = decision.action == Action::kPause ? "paused" : "stopped";
    return concat(head(word), " at ", reported.t, parameters());
  }

  std::string operator()(const AttemptEnded& ended) const {
    switch (ended.then) {
      case TrialState::kComplete:
        return finished(ended);
      case TrialState::kFailed:
        return failed(ended);
      case TrialState::kPending:
        return failed(ended) + "; again in " + human_duration(ended.retry_in_s);
      default:  // the decision had the line, unless it came while the trial was paused
        return ended.ordered ? head("") + ended.message + parameters() : "";
    }
  }

  std::string operator()(const OutsideTrial&) const { return ""; }  // the tuner's line counts them
  std::string operator()(const CheckpointSaved&) const { return ""; }

  std::string operator()(const StopOrdered& stop) const { return head(stop.reason); }
  std::string operator()(const PauseOrdered& pause) const {
    return head("at its next report: ") + pause.reason;
  }
  std::string operator()(const ContinueOrdered& order) const { return head(order.reason); }

  std::string operator()(const TunerNote& note) const {
    if (note.last) return "";  // of no use but to the scheduler
    return event_.trial < 0 ? "tuner: " + note.text : head(note.text);
  }

 private:
  std::string head(std::string_view word) const {
    return concat("trial ", event_.trial, ' ', word);
  }
  /// In logs of older versions the reason says it.
  static std::string why(const AttemptStarted& started) {
    if (!started.asked || started.reason.starts_with("asked")) return started.reason;
    return started.reason.empty() ? "asked" : "asked: " + started.reason;
  }
  static std::string because(const std::string& reason) {
    return reason.empty() ? "" : ": " + reason;
  }
  const Trial* trial() const {
    const auto at = static_cast<size_t>(event_.trial);
    return event_.trial >= 0 && at < view_.trials.size() ? &view_.trials[at] : nullptr;
  }
  std::string parameters() const {
    const std::string text = trial() != nullptr ? parameters_text(view_, *trial(), true) : "";
    return text.empty() ? "" : "  [" + text + "]";
  }

  std::string finished(const AttemptEnded& ended) const {
    std::string out = head("finished");
    if (const Trial* trial = this->trial(); trial != nullptr && trial->reports > 0) {
      out += concat(" at step ", trial->last_t);
      if (view_.goals.several())
        out += concat(" with ", results_text(view_, *trial, true));
      else if (!view_.metric.empty())
        out += concat(" with ", view_.metric, '=', short_text(trial->last_metric));
      out += " in " + human_duration(trial->run_s);
    }
    const std::string why = ended.message == "exit code 0" ? "" : ended.message;
    return out + because(why) + best() + parameters();
  }

  std::string best() const {
    if (const Trial* trial = this->trial(); trial != nullptr && !trial->goals.is_feasible())
      return "; beyond the constraints";
    if (view_.goals.several()) {
      const bool is_on = std::ranges::find(view_.front, event_.trial) != view_.front.end();
      return concat(is_on ? "; on the front of " : "; behind the front of ", view_.front.size());
    }
    if (view_.best == nullptr) return "";
    if (view_.best->number == event_.trial) return "; the best so far";
    return concat("; best is trial ", view_.best->number, " with ", short_text(view_.best_result));
  }

  std::string failed(const AttemptEnded& ended) const {
    if (ended.failure == Failure::kInterrupted) return head("interrupted") + because(ended.message);
    return head("failed") + concat(" (", name_of(ended.failure), ")") + because(ended.message) +
           parameters();
  }

  const StudyView& view_;
  const Event& event_;
};

struct Counts {
  std::array<int64_t, 6> by_state{};
  std::array<int64_t, kFailures> by_failure{};
  int64_t steps = 0, reports = 0;
};

Counts count(std::span<const Trial> trials) {
  Counts out;
  for (const Trial& trial : trials) {
    ++out.by_state[static_cast<size_t>(trial.state)];
    if (trial.state == TrialState::kFailed) ++out.by_failure[static_cast<size_t>(trial.failure)];
    out.steps += std::max<int64_t>(0, trial.last_t);
    out.reports += trial.reports;
  }
  return out;
}

std::string failures_text(const Counts& counts) {
  std::vector<std::string> words;
  for (size_t f = 0; f < kFailures; ++f) {
    if (counts.by_failure[f] > 0)
      words.push_back(concat(counts.by_failure[f], ' ', name_of(static_cast<Failure>(f))));
  }
  return words.empty() ? "" : concat(" (", join(words, ", "), ")");
}

std::string counts_text(const StudyView& view, const Counts& counts) {
  constexpr std::array<std::pair<TrialState, std::string_view>, 6> kWords = {
      {{TrialState::kComplete, "finished"},
       {TrialState::kPruned, "stopped early"},
       {TrialState::kFailed, "failed"},
       {TrialState::kRunning, "running"},
       {TrialState::kPaused, "paused"},
       {TrialState::kPending, "to go on"}}};
  std::vector<std::string> words;
  for (const auto& [state, word] : kWords) {
    const int64_t n = counts.by_state[static_cast<size_t>(state)];
    if (n == 0) continue;
    words.push_back(
        concat(n, ' ', word, state == TrialState::kFailed ? failures_text(counts) : ""));
  }
  const size_t n = view.trials.size();
  return concat(n, n == 1 ? " trial: " : " trials: ", words.empty() ? "none" : join(words, ", "));
}

}  // namespace

std::optional<std::string> event_line(const StudyView& view, const Event& event) {
  // An error's hint is a line of its own.
  const std::string said = std::visit(LineOf(view, event), event.what);
  std::string line = printable(join(split(said, '\n'), "; "));
  if (line.empty()) return std::nullopt;
  return line;
}

std::optional<std::string> event_line(const StudyCore& core, const Event& event) {
  // Most events are reports without a line, and a view costs as much as some reports.
  const auto* reported = std::get_if<Reported>(&event.what);
  if (reported != nullptr && is_silent(*reported)) return std::nullopt;
  return event_line(view_of(core), event);
}

std::string summary(const StudyView& view, const StatusFacts& facts) {
  const Counts counts = count(view.trials);
  std::string out = counts_text(view, counts);
  if (counts.reports > 0) {
    // Steps are what a budget is spent on (epochs, say); they are the reports unless named.
    out += concat("; ", counts.steps, counts.steps == 1 ? " step" : " steps");
    if (counts.steps != counts.reports) out += concat(" in ", counts.reports, " reports");
  }
  // As trials and steps: of the study, whichever processes ran it.
  const double run_s = facts.before_s + std::max(0.0, facts.now_s - facts.started_s);
  out += concat("; ", human_duration(run_s), '\n');
  if (!facts.storage.empty()) out += concat("storage: ", printable(facts.storage), '\n');
  if (view.goals.several()) return out + printable(front_text(view)) + '\n';
  if (view.best == nullptr && std::ranges::any_of(view.trials, [](const Trial& trial) {
        return is_over(trial.state) && trial.reports > 0 && !trial.goals.is_feasible();
      }))
    return out + "no trial satisfies the constraints\n";
  if (view.best == nullptr) return out + concat("no trial has reported ", view.metric, '\n');
  return out + concat("best trial: ",
                      view.best->number,
                      " with ",
                      view.metric,
                      '=',
                      shortest(view.best_result),
                      "  [",
                      parameters_text(view, *view.best),
                      "]\n");
}

std::string summary(const StudyCore& core, const StatusFacts& facts) {
  return summary(view_of(core), facts);
}

}  // namespace muster::tune
