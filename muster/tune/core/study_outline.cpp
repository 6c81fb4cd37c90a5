// A core without the log behind it: StudyCore::outline and take_outline, Note [Outlines].
#include <cmath>
#include <cstdint>
#include <exception>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "muster/base/digest.h"
#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/tune/core/heard_calls.h"
#include "muster/tune/core/study_core.h"
#include "muster/tune/core/study_state.h"

namespace muster::tune {
namespace {

Json outline_number(double number) {
  return std::isfinite(number) ? Json(number) : Json(shortest(number));
}

double number_in(const Json& json) {
  return json.is_string() ? to_double(json.get<std::string>()).value() : json.get<double>();
}

Json numbers_json(const std::vector<double>& numbers) {
  Json json = Json::array();
  for (const double number : numbers) json.push_back(outline_number(number));
  return json;
}

std::vector<double> numbers_in(const Json& json) {
  std::vector<double> numbers;
  for (const Json& number : json) numbers.push_back(number_in(number));
  return numbers;
}

Json decision_json(const Decision& decision) {
  return {{"action", static_cast<int>(decision.action)},
          {"reason", decision.reason},
          {"complete", decision.complete}};
}

Decision decision_in(const Json& json) {
  return {.action = static_cast<Action>(json.at("action").get<int>()),
          .reason = json.at("reason").get<std::string>(),
          .complete = json.at("complete").get<bool>()};
}

/// Doubles that JSON has not are objects: a text may be "nan".
Json outline_value(const Value& value) {
  if (!value.is_double() || std::isfinite(value.as_double())) return to_json(value);
  Json json = Json::object();
  json["double"] = shortest(value.as_double());
  return json;
}

Json values_json(const Values& values) {
  Json json = Json::array();
  for (const Value& value : values) json.push_back(outline_value(value));
  return json;
}

Values values_in(const Json& json) {
  Values values;
  for (const Json& value : json)
    values.push_back(value.is_object() ? Value(number_in(value.at("double")))
                                       : value_from(value, "an outline"));
  return values;
}

Json progress_json(const StopRules::Progress& progress) {
  return Json::array({outline_number(progress.best), Json(progress.waited), Json(progress.any)});
}

StopRules::Progress progress_in(const Json& json) {
  return {.best = number_in(json.at(0)),
          .waited = json.at(1).get<int64_t>(),
          .any = json.at(2).get<bool>()};
}

Json trial_json(const Trial& trial) {
  Json metrics = Json::array();
  for (const auto& [name, value] : trial.last_metrics)
    metrics.push_back(Json::array({Json(name), outline_number(value)}));
  return {{"number", trial.number},
          {"point", numbers_json(trial.point)},
          {"state", static_cast<int>(trial.state)},
          {"attempt", trial.attempt},
          {"last_t", trial.last_t},
          {"reports", trial.reports},
          {"last_metric", outline_number(trial.last_metric)},
          {"best_metric", outline_number(trial.best_metric)},
          {"last_metrics", std::move(metrics)},
          {"checkpoint", trial.checkpoint},
          {"checkpoint_t", trial.checkpoint_t},
          {"copies", trial.copies},
          {"started_s", trial.started_s},
          {"ended_s", trial.ended_s},
          {"run_s", trial.run_s},
          {"attempt_s", trial.attempt_s},
          {"due_s", trial.due_s},
          {"failure", static_cast<int>(trial.failure)},
          {"reason", trial.reason},
          {"held", trial.held},
          {"asked", trial.asked},
          {"results", numbers_json(trial.goals.results)},
          {"violations", numbers_json(trial.goals.violations)}};
}

/// All but what follows from the point and the study.
Trial trial_in(const Json& json) {
  Trial trial;
  json.at("number").get_to(trial.number);
  trial.point = numbers_in(json.at("point"));
  trial.state = static_cast<TrialState>(json.at("state").get<int>());
  json.at("attempt").get_to(trial.attempt);
  json.at("last_t").get_to(trial.last_t);
  json.at("reports").get_to(trial.reports);
  trial.last_metric = number_in(json.at("last_metric"));
  trial.best_metric = number_in(json.at("best_metric"));
  for (const Json& metric : json.at("last_metrics"))
    trial.last_metrics.emplace_back(metric.at(0).get<std::string>(), number_in(metric.at(1)));
  json.at("checkpoint").get_to(trial.checkpoint);
  json.at("checkpoint_t").get_to(trial.checkpoint_t);
  json.at("copies").get_to(trial.copies);
  json.at("started_s").get_to(trial.started_s);
  json.at("ended_s").get_to(trial.ended_s);
  json.at("run_s").get_to(trial.run_s);
  json.at("attempt_s").get_to(trial.attempt_s);
  json.at("due_s").get_to(trial.due_s);
  trial.failure = static_cast<Failure>(json.at("failure").get<int>());
  json.at("reason").get_to(trial.reason);
  json.at("held").get_to(trial.held);
  json.at("asked").get_to(trial.asked);
  trial.goals = {.results = numbers_in(json.at("results")),
                 .violations = numbers_in(json.at("violations"))};
  return trial;
}

Json record_json(const TrialRecord& record) {
  const Attempt& attempt = record.attempt;
  Json older = Json::array();
  for (const SavedState& saved : record.older)
    older.push_back(Json::array({Json(saved.checkpoint), Json(saved.t)}));
  return {{"started_s", attempt.started_s},
          {"sequence", attempt.sequence},
          {"t", attempt.t},
          {"base_t", attempt.base_t},
          {"counted", attempt.counted},
          {"asked", attempt.asked},
          {"lease_end_s", attempt.lease_end_s},
          {"decision", decision_json(record.decision)},
          {"fails", record.fails ? Json(static_cast<int>(*record.fails)) : Json()},
          {"by_user", record.by_user},
          {"pause", record.pause ? Json(*record.pause) : Json()},
          {"failed", record.failed},
          {"older", std::move(older)}};
}

TrialRecord record_in(const Json& json) {
  TrialRecord record;
  json.at("started_s").get_to(record.attempt.started_s);
  json.at("sequence").get_to(record.attempt.sequence);
  json.at("t").get_to(record.attempt.t);
  json.at("base_t").get_to(record.attempt.base_t);
  json.at("counted").get_to(record.attempt.counted);
  json.at("asked").get_to(record.attempt.asked);
  json.at("lease_end_s").get_to(record.attempt.lease_end_s);
  record.decision = decision_in(json.at("decision"));
  if (const Json& fails = json.at("fails"); !fails.is_null())
    record.fails = static_cast<Failure>(fails.get<int>());
  json.at("by_user").get_to(record.by_user);
  if (const Json& pause = json.at("pause"); !pause.is_null())
    record.pause = pause.get<std::string>();
  json.at("failed").get_to(record.failed);
  for (const Json& saved : json.at("older"))
    record.older.push_back(
        {.checkpoint = saved.at(0).get<std::string>(), .t = saved.at(1).get<int64_t>()});
  return record;
}

}  // namespace

/// Writes and reads the state of a core.
class StudyOutline {
 public:
  explicit StudyOutline(StudyCore::Impl& core) : core_(core) {}

  /// All that goes on from here is in it, but for what searcher and scheduler make of their calls.
  bool is_possible() const {
    return core_.may_have_outlines() && core_.unlogged.empty() && core_.events.empty();
  }

  /// What a replay hangs on besides the log.
  std::string rules(const Json& description) const {
    const StudySpec& spec = core_.spec;
    Json rules = core_.call_rules(description);
    rules["ask_lease_s"] = spec.ask_lease_s;
    rules["fail_fast"] = spec.fail_fast;
    rules["give_up_after"] = spec.give_up_after;
    rules["folder"] = core_.folders.now();
    return json_text(rules);
  }

  Json write(const std::string& rules, const std::string& chain) const {
    std::set<int64_t> numbers(core_.front.begin(), core_.front.end());
    for (const auto& [number, record] : core_.records) numbers.insert(number);
    if (core_.best >= 0) numbers.insert(core_.best);
    Json trials = Json::array();
    for (const int64_t number : numbers) {
      const Trial& trial = core_.trials[static_cast<size_t>(number)];
      Json one = trial_json(trial);
      if (core_.has_functions) one["values"] = values_json(trial.values);
      const auto record = core_.records.find(number);
      if (record != core_.records.end()) one["record"] = record_json(record->second);
      if (const auto progress = core_.rules.progress(number))
        one["plateau"] = progress_json(*progress);
      trials.push_back(std::move(one));
    }
    return {{"rules", rules},
            {"calls", chain},
            {"last_said", core_.last_said},
            {"front", core_.front},
            {"event", core_.next_event - 1},
            {"count", core_.trials.size()},
            {"trials", std::move(trials)},
            {"outside", core_.outside},
            {"in_vain", core_.in_vain},
            {"adopted", core_.adopted},
            {"best", core_.best},
            {"given_up", core_.given_up},
            {"any_results", core_.any_results},
            {"failed", core_.failed},
            {"given_count", core_.given_count},
            {"reports", core_.reports},
            {"used_s", core_.used_s},
            {"session_start_s", core_.session_start_s},
            {"session_last_s", core_.session_last_s},
            {"born_s", core_.born_s ? Json(*core_.born_s) : Json()},
            {"folder", core_.folders.newest()},
            {"folders", core_.folders.before()}};
  }

  /// Into a new core. False, and nothing has changed, for what write() does not write.
  bool read(const Json& json) {
    const auto count = json.at("count").get<int64_t>(), event = json.at("event").get<int64_t>();
    const auto best = json.at("best").get<int64_t>();
    if (count < 0 || count > event || best < -1 || best >= count) return false;
    std::vector<Trial> trials(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i)
      trials[static_cast<size_t>(i)] = {.number = i, .state = TrialState::kComplete};
    std::unordered_map<int64_t, TrialRecord> records;
    std::set<int64_t> told;
    std::vector<std::pair<int64_t, StopRules::Progress>> progress;
    for (const Json& one : json.at("trials")) {
      Trial trial = trial_in(one);
      if (core_.has_functions) trial.values = values_in(one.at("values"));
      if (trial.number < 0 || trial.number >= count || !is_whole(trial)) return false;
      if (is_over(trial.state) == one.contains("record")) return false;
      if (one.contains("record")) records.emplace(trial.number, record_in(one.at("record")));
      if (one.contains("plateau"))
        progress.emplace_back(trial.number, progress_in(one.at("plateau")));
      told.insert(trial.number);
      trials[static_cast<size_t>(trial.number)] = std::move(trial);
    }
    if (best >= 0 && (!told.contains(best) || records.contains(best))) return false;
    const auto newest_folder = json.at("folder").get<std::string>();
    const auto folders = json.at("folders").get<std::set<std::string>>();
    auto front = json.at("front").get<std::vector<int64_t>>();
    for (const int64_t number : front)
      if (!told.contains(number) || records.contains(number)) return false;
    StudyCore::Impl& core = core_;
    core.front = std::move(front);
    json.at("last_said").get_to(core.last_said);
    json.at("outside").get_to(core.outside);
    json.at("in_vain").get_to(core.in_vain);
    json.at("adopted").get_to(core.adopted);
    json.at("given_up").get_to(core.given_up);
    json.at("any_results").get_to(core.any_results);
    json.at("failed").get_to(core.failed);
    json.at("given_count").get_to(core.given_count);
    json.at("reports").get_to(core.reports);
    json.at("used_s").get_to(core.used_s);
    json.at("session_start_s").get_to(core.session_start_s);
    json.at("session_last_s").get_to(core.session_last_s);
    if (const Json& born = json.at("born_s"); !born.is_null()) core.born_s = born.get<double>();
    core.folders.go_on_from(newest_folder, folders);
    core.checkpoints.stop();
    for (const auto& [number, known] : progress) core.rules.go_on_from(number, known);
    core.trials = std::move(trials);
    core.records = std::move(records);
    core.told = std::move(told);
    core.outlined = count;
    core.best = best;
    core.next_event = event + 1;
    for (auto& [number, record] : core.records)
      take_up(core.trials[static_cast<size_t>(number)], record);
    return true;
  }

 private:
  /// Fills in what an outline leaves out; false for a trial of another space or state.
  bool is_whole(Trial& trial) const {
    const bool may_be_open = trial.state == TrialState::kRunning ||
                             trial.state == TrialState::kPending ||
                             trial.state == TrialState::kPaused;
    if (trial.point.size() != core_.spec.space.dimensions().size()) return false;
    if (!may_be_open && !is_over(trial.state)) return false;
    const GoalValues goals = no_values(core_.spec.goals);
    if (trial.goals.results.size() != goals.results.size() ||
        trial.goals.violations.size() != goals.violations.size())
      return false;
    // A function need not repeat itself: what it said the first time is the trial's.
    if (!core_.has_functions) trial.values = core_.spec.space.resolve(trial.point);
    return trial.values.size() == core_.spec.space.parameters().size();
  }

  /// One that is not over: what else knows of it.
  void take_up(const Trial& trial, const TrialRecord& record) {
    if (!core_.scheduler->has_history()) {  // else it hears all of its calls again
      core_.scheduler->on_start(trial.number, trial.point);
      if (trial.reports > 0)
        core_.scheduler->on_report(
            trial.number, trial.last_t, score_of(trial.last_metric, core_.watched.mode));
    }
    if (trial.state == TrialState::kRunning) ++core_.running_count;
    if (trial.state == TrialState::kPaused) ++(trial.held ? core_.held_count : core_.paused_count);
    if (trial.state == TrialState::kPending) core_.retries.emplace(trial.due_s, trial.number);
    if (trial.state == TrialState::kRunning && record.attempt.asked)
      core_.leases.emplace(record.attempt.lease_end_s, trial.number);
    core_.note_so_far(trial);
  }

  StudyCore::Impl& core_;
};

bool StudyCore::has_outline() const { return StudyOutline(*impl_).is_possible(); }

std::optional<std::string> StudyCore::outline(const std::string& chain) const {
  const StudyOutline outline(*impl_);
  if (!outline.is_possible()) return std::nullopt;
  const std::string json = json_text(outline.write(outline.rules(description()), chain));
  return concat(digest_of(json), ' ', json);
}

bool StudyCore::take_outline(std::string_view text,
                             int64_t event,
                             std::span<const CallPiece> pieces) {
  StudyOutline outline(*impl_);
  if (impl_->next_event != 1 || !outline.is_possible()) return false;
  if (needs_calls() && !is_whole(pieces)) return false;
  const size_t blank = text.find(' ');
  if (blank == std::string_view::npos) return false;
  const std::string_view body = text.substr(blank + 1);
  if (text.substr(0, blank) != std::to_string(digest_of(body))) return false;
  try {
    const Json json = parse_json(body, "an outline");
    const std::string chain = pieces.empty() ? "" : pieces.back().chain;
    if (needs_calls() && json.at("calls").get<std::string>() != chain) return false;
    if (json.at("rules").get<std::string>() != outline.rules(description()) ||
        json.at("event").get<int64_t>() != event || !outline.read(json))
      return false;
  } catch (const std::exception&) {
    return false;  // of a version that writes other things; the log has it all
  }
  const size_t dimensions = impl_->spec.space.dimensions().size();
  SearchDesk* searcher = impl_->searcher.has_history() ? &impl_->searcher : nullptr;
  Scheduler* scheduler = impl_->scheduler->has_history() ? impl_->scheduler.get() : nullptr;
  for (const CallPiece& piece : pieces) tell_again(piece.calls, dimensions, searcher, scheduler);
  return true;
}

int64_t StudyCore::last_event() const { return impl_->next_event - 1; }

bool StudyCore::knows(int64_t trial) const {
  return trial >= impl_->outlined || impl_->told.contains(trial);
}

}  // namespace muster::tune
