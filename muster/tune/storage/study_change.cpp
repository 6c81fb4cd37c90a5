// What is done to stored studies from outside: delete_study and restart_failed_trials.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include <errno.h>
#include <stdlib.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/tune/core/study_paths.h"
#include "muster/tune/space/python_text.h"
#include "muster/tune/storage/once_more.h"
#include "muster/tune/storage/optuna_schema.h"
#include "muster/tune/storage/storage.h"
#include "muster/tune/storage/study_tables.h"

namespace muster::tune {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 6> kTablesOfTrials = {"trial_user_attributes",
                                                        "trial_system_attributes",
                                                        "trial_params",
                                                        "trial_values",
                                                        "trial_intermediate_values",
                                                        "trial_heartbeats"};
constexpr std::array<const char*, 5> kTablesOfStudies = {
    "trials", "study_user_attributes", "study_system_attributes", "study_directions", "studies"};

/// A failed trial of ours.
struct FailedTrial {
  int64_t trial_id = 0, number = 0, optuna_number = 0;
  Point point;
};

/// Writes the rows of trials that wait.
class WaitingRows {
 public:
  /// With parameters as a JSON object.
  void add(const std::string& params) {
    const int64_t id = add_waiting();
    set_attribute(id, kAddedAttribute, "true");
    set_attribute(id, "fixed_params", params);
  }

  WaitingRows(Database& database, int64_t study_id) : database_(database), study_id_(study_id) {}

  /// To Optuna one has failed, too, that ended well without a number: that the log says.
  std::vector<FailedTrial> failed() {
    Statement rows = database_.prepare(
        "SELECT t.trial_id, m.number, t.number FROM muster_trials AS m JOIN trials AS t "
        "ON t.trial_id = m.trial_id WHERE t.study_id = ? AND t.state = 'FAIL' ORDER BY m.number");
    rows.bind(1, study_id_);
    std::vector<FailedTrial> trials;
    while (rows.step()) trials.push_back({rows.integer(0), rows.integer(1), rows.integer(2), {}});
    if (trials.empty()) return trials;  // without a walk over the log
    std::vector<int64_t> numbers;
    for (const FailedTrial& trial : trials) numbers.push_back(trial.number);
    std::map<int64_t, LoggedTrial> logged = select_logged_trials(database_, study_id_, numbers);
    std::erase_if(trials, [&](const FailedTrial& trial) {
      return logged.at(trial.number).end == TrialState::kComplete;
    });
    for (FailedTrial& trial : trials) trial.point = std::move(logged.at(trial.number).point);
    return trials;
  }

  /// Trials that were put in once more, whatever became of that.
  std::set<int64_t> restarted() {
    Statement rows = database_.prepare(
        "SELECT t.trial_id FROM trial_system_attributes AS a JOIN trials AS t "
        "ON t.trial_id = a.trial_id WHERE t.study_id = ? AND a.\"key\" = ?");
    rows.bind(1, study_id_).bind(2, kAgainAttribute);
    OnceMoreReader reader(database_, study_id_);
    std::set<int64_t> numbers;
    while (rows.step()) {
      if (const auto trial = reader.read(rows.integer(0))) numbers.insert(trial->number);
    }
    return numbers;
  }

  void put_in(const FailedTrial& trial) {
    const int64_t id = add_waiting();
    set_attribute(id, kAgainAttribute, std::to_string(trial.number));
    if (const auto began_s = select_began(database_, study_id_))
      set_attribute(id, kFailedAttribute, failed_attribute(*began_s, trial.point));
    // Optuna's names, by which its samplers and pages know such a trial.
    set_attribute(id, "failed_trial", std::to_string(trial.optuna_number));
    set_attribute(id, "fixed_params", params_of(trial));
  }

 private:
  int64_t add_waiting() {
    database_
        .prepare(
            "INSERT INTO trials (number, study_id, state) SELECT 1 + ifnull(max(number), -1), ?1, "
            "'WAITING' FROM trials WHERE study_id = ?1")
        .bind(1, study_id_)
        .run();
    return database_.last_rowid();
  }

  std::string params_of(const FailedTrial& trial) {
    Statement rows = database_.prepare(
        "SELECT param_name, param_value, distribution_json FROM trial_params WHERE trial_id = ?");
    rows.bind(1, trial.trial_id);
    Json params = Json::object();
    while (rows.step()) {
      params[std::string(rows.text(0))] = to_json(value_from_optuna(rows.number(1), rows.text(2)));
    }
    return json_text(params);
  }

  void set_attribute(int64_t trial_id, std::string_view key, const std::string& json) {
    database_
        .prepare(
            "INSERT INTO trial_system_attributes (trial_id, \"key\", value_json) "
            "VALUES (?, ?, ?)")
        .bind(1, trial_id)
        .bind(2, key)
        .bind(3, json)
        .run();
  }

  Database& database_;
  int64_t study_id_;
};

/// Where all that conditions hang on is given, no value is of a parameter that is not there. (Where some
/// of it is drawn, the draw tells.)
void check_applies(const Space& space, const Point& given) {
  for (const size_t d : space.deciding_dimensions())
    if (std::isnan(given[d])) return;
  const Point applies = space.with_conditions(given);
  for (size_t d = 0; d < given.size(); ++d) {
    if (std::isnan(given[d]) || !std::isnan(applies[d])) continue;
    const Parameter& parameter = space.parameters()[space.dimensions()[d].parameter];
    throw usage_error({.refused = concat("parameter \"", parameter.name, "\""),
                       .rule = concat("it is there when ", parameter.when),
                       .value = "values with which that is not so",
                       .hint = "leave it away, or change the others"});
  }
}

/// "failed: 1, 4".
std::string failed_numbers(std::span<const FailedTrial> failed) {
  constexpr size_t kMostNamed = 20;
  if (failed.empty()) return "no trial of ours has";
  std::vector<std::string> numbers;
  for (const FailedTrial& trial : failed.first(std::min(failed.size(), kMostNamed)))
    numbers.push_back(std::to_string(trial.number));
  if (failed.size() > kMostNamed) numbers.emplace_back("…");
  return concat("failed: ", join(numbers, ", "));
}

/// The study's id; a usage error if it is not there.
int64_t id_in(const std::filesystem::path& file, Database& database, std::string_view study) {
  find_study(file, study);  // says what there is instead
  check_schema(database);
  return *find_study_id(database, study);
}

}  // namespace

namespace {

/// No study's folder has such a name: file_part() begins with no point. Nor does another program's:
/// who finds one may remove it.
constexpr std::string_view kDeleted = ".muster-deleted-";

fs::path without_slash(const fs::path& given) {
  fs::path folder = fs::absolute(given).lexically_normal();
  return folder.has_filename() ? folder : folder.parent_path();
}

/// Where the folder's content is to be removed; empty if there is none.
fs::path set_aside(const fs::path& given) {
  const fs::path folder = without_slash(given);
  std::error_code error;
  for (;;) {
    if (!fs::exists(fs::symlink_status(folder, error))) return {};
    std::string aside = folder.parent_path() / concat(kDeleted, "XXXXXX");
    if (::mkdtemp(aside.data()) == nullptr) {
      error.assign(errno, std::generic_category());
      break;
    }
    fs::rename(folder, fs::path(aside) / folder.filename(), error);
    if (!error) return aside;
    // Somebody who found it empty has removed it.
    if (error != std::errc::no_such_file_or_directory) break;
  }
  throw environment_error({.refused = concat("cannot remove ", folder.string()),
                           .rule = errno_text(error.value()),
                           .hint = "the study itself is deleted"});
}

/// A line of the study's log, which all that have it open read.
void add_note(Database& database, int64_t study_id, const TunerNote& note) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  const Event event{.id = select_last_event(database, study_id) + 1,
                    .time_s = now.count(),
                    .trial = -1,
                    .what = note};
  const std::string payload = payload_text(event);
  database
      .prepare(
          "INSERT INTO muster_events (event_key, time, trial, kind, payload) "
          "VALUES (?, ?, ?, ?, ?)")
      .bind(1, event_key(study_id, event.id))
      .bind(2, event.time_s)
      .bind(3, event.trial)
      .bind(4, kind_of(event))
      .bind(5, payload)
      .run();
}

}  // namespace

fs::path delete_study(const fs::path& file,
                      std::string_view study,
                      const fs::path& trials,
                      double lock_patience_s) {
  find_study(file, study);
  const TunerLock lock(file, study);  // no tuner runs it, and none begins
  std::error_code ignored;
  fs::remove(file_of_study(file, study, "tuner"), ignored);  // how to reach one that was killed
  Database database(file, Database::Access::kWrite, lock_patience_s);
  const int64_t id = id_in(file, database, study);
  Transaction transaction(database);
  for (const char* table : kTablesOfTrials) {
    database
        .prepare(concat("DELETE FROM ",
                        table,
                        " WHERE trial_id IN (SELECT trial_id FROM trials WHERE study_id = ?)"))
        .bind(1, id)
        .run();
  }
  for (const char* table : kTablesOfStudies)
    database.prepare(concat("DELETE FROM ", table, " WHERE study_id = ?")).bind(1, id).run();
  transaction.commit();  // a trigger takes our own tables along
  return trials.empty() ? fs::path() : set_aside(trials);
}

std::vector<fs::path> left_by_deletions(const fs::path& trials) {
  std::vector<fs::path> left;
  std::error_code error;
  fs::directory_iterator it(without_slash(trials).parent_path(), error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    if (it->path().filename().string().starts_with(kDeleted)) left.push_back(it->path());
  }
  std::ranges::sort(left);
  return left;
}

std::vector<int64_t> restart_failed_trials(const std::filesystem::path& file,
                                           std::string_view study,
                                           std::span<const int64_t> numbers,
                                           double lock_patience_s) {
  find_study(file, study);
  Database database(file, Database::Access::kWrite, lock_patience_s);
  const int64_t id = id_in(file, database, study);
  if (!has_own_tables(database)) {
    throw usage_error({.refused = concat("study \"", study, "\" was made by Optuna"),
                       .rule = "trials that Muster ran can be restarted"});
  }
  Transaction transaction(database);
  WaitingRows restarter(database, id);
  const std::vector<FailedTrial> failed = restarter.failed();
  const std::set<int64_t> before = restarter.restarted();
  for (const int64_t number : numbers) {
    if (std::ranges::find(failed, number, &FailedTrial::number) != failed.end()) continue;
    throw usage_error({.refused = concat("trial ", number, " cannot be restarted"),
                       .rule = "only one that has failed can be",
                       .hint = failed_numbers(failed)});
  }
  std::vector<int64_t> done;
  for (const FailedTrial& trial : failed) {
    const bool wanted = numbers.empty() ? !before.contains(trial.number)
                                        : std::ranges::find(numbers, trial.number) != numbers.end();
    if (!wanted) continue;
    restarter.put_in(trial);
    done.push_back(trial.number);
  }
  if (!done.empty()) {
    std::vector<std::string> words;
    for (const int64_t number : done) words.push_back(std::to_string(number));
    add_note(database,
             id,
             {.text = concat("once more, by `muster study restart`: trial",
                             words.size() == 1 ? " " : "s ",
                             join(words, ", ")),
              .forgives = true});
  }
  transaction.commit();
  return done;
}

void add_trial(const fs::path& file,
               std::string_view study,
               const std::map<std::string, Value>& values,
               double lock_patience_s) {
  Database database(file, Database::Access::kWrite, lock_patience_s);
  const int64_t id = id_in(file, database, study);
  const Json description = select_description(database, id);
  if (description.is_null() || !description.contains("space")) {
    throw usage_error({.refused = concat("study \"", study, "\" was made by Optuna"),
                       .rule = "a trial can be added to one that Muster made",
                       .hint = "in Python: study.enqueue_trial({…})"});
  }
  const Space space = Space::from_description(description["space"]);
  check_applies(space, space.point_of(values));
  Json params = Json::object();
  for (const auto& [name, value] : values) params[name] = to_json(value);
  Transaction transaction(database);
  WaitingRows(database, id).add(json_text(params));
  transaction.commit();
}

}  // namespace muster::tune
