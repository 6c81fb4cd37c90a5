// A study as a tuner writes it, for tests of what is kept of it.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/json.h"
#include "muster/tune/storage/sqlite.h"
#include "muster/tune/storage/storage.h"

namespace muster::test {

inline Json description_of(const tune::Space& space,
                           const std::string& name = "fashion",
                           const std::string& mode = "min") {
  return {{"name", name},
          {"metric", "loss"},
          {"mode", mode},
          {"scope", "last"},
          {"searcher", "random"},
          {"scheduler", "fifo"},
          {"seed", 1},
          {"space", space.description()}};
}

inline tune::Space small_space() {
  return tune::Space{{"lr", tune::loguniform(1e-4, 1e-1)},
                     {"l1", tune::sample_from("2 ** randint(2, 9)")},
                     {"batch_size", tune::choice({2, 4, 8, 16})},
                     {"epochs", 10}};
}

/// Makes events with rising ids and times.
class EventMaker {
 public:
  explicit EventMaker(tune::Space space, int64_t next_id = 1)
      : space_(std::move(space)), next_id_(next_id) {}

  tune::Event make(int64_t trial, decltype(tune::Event::what) what) {
    return {.id = next_id_++,
            .time_s = 1.7e9 + 0.25 * double(next_id_),
            .trial = trial,
            .what = std::move(what)};
  }
  tune::Event added(int64_t trial) {
    tune::TrialAdded what;
    what.point = space_.draw({}, 1, trial);
    return added(trial, std::move(what));
  }
  tune::Event added(int64_t trial, const std::map<std::string, tune::Value>& values) {
    tune::TrialAdded what;
    what.point = space_.point_of(values);
    return added(trial, std::move(what));
  }
  tune::Event started(int64_t trial, int32_t attempt = 1) {
    tune::AttemptStarted what;
    what.attempt = attempt;
    return make(trial, what);
  }
  tune::Event reported(int64_t trial, int64_t t, tune::Metrics metrics) {
    tune::Reported what;
    what.t = what.report.sequence = t;
    what.report.step = t;
    what.report.metrics = std::move(metrics);
    return make(trial, what);
  }
  tune::Event ended(int64_t trial, tune::TrialState then, std::string message = "") {
    tune::AttemptEnded what;
    what.then = then;
    what.message = std::move(message);
    return make(trial, what);
  }
  /// A trial from its start to its end with `reports` reports.
  void whole(int64_t trial, int64_t reports, std::vector<tune::Event>& out) {
    out.push_back(added(trial));
    out.push_back(started(trial));
    for (int64_t t = 1; t <= reports; ++t)
      out.push_back(reported(trial, t, {{"loss", 1.0 / double(t + trial)}, {"accuracy", 0.5}}));
    out.push_back(ended(trial, tune::TrialState::kComplete, "max_t reached"));
  }
  int64_t next_id() const { return next_id_; }

 private:
  tune::Event added(int64_t trial, tune::TrialAdded what) {
    what.values = space_.resolve(what.point);
    return make(trial, std::move(what));
  }

  tune::Space space_;
  int64_t next_id_;
};

/// Rows of a query as text, columns joined by "|", NULL as "-".
inline std::vector<std::string> rows_of(tune::Database& database,
                                        const std::string& sql,
                                        int columns) {
  std::vector<std::string> rows;
  tune::Statement statement = database.prepare(sql);
  while (statement.step()) {
    std::string row;
    for (int i = 0; i < columns; ++i) {
      if (i > 0) row += '|';
      row += statement.is_null(i) ? "-" : std::string(statement.text(i));
    }
    rows.push_back(row);
  }
  return rows;
}

inline std::vector<std::string> rows_of(const std::filesystem::path& file,
                                        const std::string& sql,
                                        int columns) {
  tune::Database database(file, tune::Database::Access::kRead);
  database.run("PRAGMA trusted_schema = ON");  // our own view takes JSON apart
  return rows_of(database, sql, columns);
}

}  // namespace muster::test
