#include "cli/watch/watched_study.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <variant>

#include "muster/base/error.h"

namespace muster::cli {
namespace {

constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();

std::string description_text(const tune::StudySummary& summary, const char* key) {
  const Json& description = summary.description;
  if (!description.is_object() || !description.contains(key)) return "";
  return description[key].is_string() ? description[key].get<std::string>() : "";
}

/// A space that a C++ function is part of has no text to be made from.
std::optional<tune::Space> space_of(const tune::StudySummary& summary) try {
  if (!summary.description.is_object() || !summary.description.contains("space")) return {};
  return tune::Space::from_description(summary.description["space"]);
} catch (const Error&) {
  return {};
}

WatchedTrial watched(const tune::TrialHistory& history, const std::string& metric) {
  WatchedTrial trial;
  for (const tune::TrialHistory::Row& row : history.rows) {
    const double* value = tune::find_metric(row.metrics, metric);
    trial.values.push_back(value != nullptr ? *value : kNoValue);
    trial.t = row.t;
    ++trial.reports;
  }
  return trial;
}

}  // namespace

WatchedStudy::WatchedStudy(const tune::StudySummary& summary,
                           std::span<const tune::ForeignTrial> foreign)
    : builder_(tune::facts_of(summary, foreign)),
      searcher_(description_text(summary, "searcher")),
      scheduler_(description_text(summary, "scheduler")),
      space_(space_of(summary)) {}

void WatchedStudy::add(std::span<const tune::Event> events) {
  for (const tune::Event& event : events) add(event);
}

void WatchedStudy::add(const tune::Event& event) {
  builder_.add(event);
  newest_ = event;
  const auto* note = std::get_if<tune::TunerNote>(&event.what);
  if (note != nullptr && note->session) {  // as StudyCore counts
    used_s_ += session_last_s_ - session_start_s_;
    session_start_s_ = session_last_s_ = event.time_s;
  }
  if (event.trial < 0) return;
  session_last_s_ = std::max(session_last_s_, event.time_s);
  trials_.resize(builder_.trials().size());
  WatchedTrial& trial = trials_.at(static_cast<size_t>(event.trial));
  if (const auto* reported = std::get_if<tune::Reported>(&event.what)) {
    const double* value = tune::find_metric(reported->report.metrics, facts().metric);
    trial.values.push_back(value != nullptr ? *value : kNoValue);
    trial.t = reported->t;
    ++trial.reports;
    if (!reported->report.checkpoint.empty()) trial.checkpoint = reported->report.checkpoint;
    builder_.forget_rows(event.trial);
  } else if (const auto* added = std::get_if<tune::TrialAdded>(&event.what)) {
    given_ += added->given;
  } else if (const auto* saved = std::get_if<tune::CheckpointSaved>(&event.what)) {
    trial.checkpoint = saved->checkpoint;
  } else if (const auto* started = std::get_if<tune::AttemptStarted>(&event.what)) {
    trial.checkpoint = started->from_checkpoint;
  }
}

void WatchedStudy::set_foreign(std::span<const tune::ForeignTrial> trials) {
  foreign_ = histories(trials, facts());
  foreign_trials_.clear();
  for (tune::TrialHistory& history : foreign_) {
    foreign_trials_.push_back(watched(history, facts().metric));
    history.rows.clear();
    const auto why = builder_.in_vain().find(history.number);
    if (why == builder_.in_vain().end() || history.state != tune::TrialState::kPending) continue;
    history.in_vain = true;
    history.reason = why->second;
  }
}

void WatchedStudy::set_tuner(std::optional<int> process, const tune::TunerFacts& facts) {
  tuner_ = process;
  tuner_facts_ = facts;
}

const tune::TrialHistory& WatchedStudy::history(size_t index) const {
  const size_t ours = builder_.trials().size();
  return index < ours ? builder_.trials()[index] : foreign_[index - ours];
}

const WatchedTrial& WatchedStudy::trial(size_t index) const {
  const size_t ours = builder_.trials().size();
  return index < ours ? trials_[index] : foreign_trials_[index - ours];
}

std::optional<size_t> WatchedStudy::best() const {
  const auto trials = builder_.trials();
  const tune::TrialHistory* ours = best_of(trials, facts());
  const tune::TrialHistory* theirs = best_of(foreign_, facts());
  const auto score = [&](const tune::TrialHistory* trial) {
    return tune::score_of(result_of(*trial, facts()), facts().mode);
  };
  if (ours == nullptr && theirs == nullptr) return std::nullopt;
  if (theirs == nullptr || (ours != nullptr && score(ours) >= score(theirs)))
    return static_cast<size_t>(ours - trials.data());
  return trials.size() + static_cast<size_t>(theirs - foreign_.data());
}

std::vector<size_t> WatchedStudy::front() const {
  std::vector<const tune::TrialHistory*> all;
  for (size_t i = 0; i < size(); ++i) all.push_back(&history(i));
  return tune::places_on_front(all, facts());
}

double WatchedStudy::run_s(size_t index, double now_s) const {
  const tune::TrialHistory& trial = history(index);
  const bool runs = trial.state == tune::TrialState::kRunning && !trial.ran.empty();
  return trial.run_s + (runs && tuner_ ? std::max(0.0, now_s - trial.ran.back().from_s) : 0.0);
}

double WatchedStudy::elapsed_s(double now_s) const {
  const double until_s = tuner_ ? now_s : session_last_s_;
  return used_s_ + std::max(0.0, until_s - session_start_s_);
}

// ---- From its file ----

StudyFollower::StudyFollower(std::filesystem::path storage, const std::string& name)
    : storage_(std::move(storage)),
      study_(tune::find_study(storage_, name), tune::read_foreign_trials(storage_, name)) {
  refresh();
}

StudyFollower::Stamp StudyFollower::stamp() const {
  Stamp stamp;
  std::error_code error;
  const std::filesystem::path log = storage_.string() + "-wal";
  if (const auto bytes = std::filesystem::file_size(storage_, error); !error)
    stamp.bytes = static_cast<int64_t>(bytes);
  stamp.time = std::filesystem::last_write_time(storage_, error);
  if (const auto bytes = std::filesystem::file_size(log, error); !error)
    stamp.log_bytes = static_cast<int64_t>(bytes);
  stamp.log_time = std::filesystem::last_write_time(log, error);
  return stamp;
}

/// A tuner has its lock before it says how it is reached, and one whose trials are functions of its
/// own program never says.
bool StudyFollower::refresh_tuner() {
  const auto process = tune::running_tuner(storage_, study_.facts().name);
  if (process == study_.tuner() && (!process || has_contact_)) return false;
  std::optional<tune::TunerContact> contact;
  if (process) contact = tune::read_contact(tune::contact_file(storage_, study_.facts().name));
  if (process == study_.tuner() && !contact) return false;
  has_contact_ = contact.has_value();
  study_.set_tuner(process, contact ? contact->facts : tune::TunerFacts{});
  return true;
}

bool StudyFollower::refresh() {
  const bool other_tuner = refresh_tuner();
  const Stamp now = stamp();  // before it is read: what comes meanwhile is seen the next time
  if (settled_ && now == seen_) return other_tuner;
  // Two changes within a tick of the file's clock look like one, so it is read once more.
  settled_ = now == seen_;
  seen_ = now;
  const std::string& name = study_.facts().name;
  const auto events = tune::read_events_behind(storage_, name, study_.newest());
  study_.add(events);
  study_.set_foreign(tune::read_foreign_trials(storage_, name));
  return other_tuner || !settled_ || !events.empty();
}

}  // namespace muster::cli
