#include "muster/tune/storage/optuna_schema.h"

#include <chrono>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::tune {
namespace {

// As SQLAlchemy writes them for Optuna's models.
constexpr const char* kOptunaTables = R"(
CREATE TABLE studies (study_id INTEGER NOT NULL, study_name VARCHAR(512) NOT NULL,
  PRIMARY KEY (study_id));
CREATE UNIQUE INDEX ix_studies_study_name ON studies (study_name);
CREATE TABLE version_info (version_info_id INTEGER NOT NULL, schema_version INTEGER,
  library_version VARCHAR(256), PRIMARY KEY (version_info_id), CHECK (version_info_id=1));
CREATE TABLE study_directions (study_direction_id INTEGER NOT NULL, direction VARCHAR(8) NOT NULL,
  study_id INTEGER NOT NULL, objective INTEGER NOT NULL, PRIMARY KEY (study_direction_id),
  UNIQUE (study_id, objective), FOREIGN KEY(study_id) REFERENCES studies (study_id));
CREATE TABLE study_user_attributes (study_user_attribute_id INTEGER NOT NULL, study_id INTEGER,
  "key" VARCHAR(512), value_json TEXT, PRIMARY KEY (study_user_attribute_id),
  UNIQUE (study_id, "key"), FOREIGN KEY(study_id) REFERENCES studies (study_id));
CREATE TABLE study_system_attributes (study_system_attribute_id INTEGER NOT NULL, study_id INTEGER,
  "key" VARCHAR(512), value_json TEXT, PRIMARY KEY (study_system_attribute_id),
  UNIQUE (study_id, "key"), FOREIGN KEY(study_id) REFERENCES studies (study_id));
CREATE TABLE trials (trial_id INTEGER NOT NULL, number INTEGER, study_id INTEGER,
  state VARCHAR(8) NOT NULL, datetime_start DATETIME, datetime_complete DATETIME,
  PRIMARY KEY (trial_id), FOREIGN KEY(study_id) REFERENCES studies (study_id));
CREATE INDEX ix_trials_study_id ON trials (study_id);
CREATE TABLE trial_user_attributes (trial_user_attribute_id INTEGER NOT NULL, trial_id INTEGER,
  "key" VARCHAR(512), value_json TEXT, PRIMARY KEY (trial_user_attribute_id),
  UNIQUE (trial_id, "key"), FOREIGN KEY(trial_id) REFERENCES trials (trial_id));
CREATE TABLE trial_system_attributes (trial_system_attribute_id INTEGER NOT NULL, trial_id INTEGER,
  "key" VARCHAR(512), value_json TEXT, PRIMARY KEY (trial_system_attribute_id),
  UNIQUE (trial_id, "key"), FOREIGN KEY(trial_id) REFERENCES trials (trial_id));
CREATE TABLE trial_params (param_id INTEGER NOT NULL, trial_id INTEGER, param_name VARCHAR(512),
  param_value FLOAT, distribution_json TEXT, PRIMARY KEY (param_id), UNIQUE (trial_id, param_name),
  FOREIGN KEY(trial_id) REFERENCES trials (trial_id));
CREATE TABLE trial_values (trial_value_id INTEGER NOT NULL, trial_id INTEGER NOT NULL,
  objective INTEGER NOT NULL, value FLOAT, value_type VARCHAR(7) NOT NULL,
  PRIMARY KEY (trial_value_id), UNIQUE (trial_id, objective),
  FOREIGN KEY(trial_id) REFERENCES trials (trial_id));
CREATE TABLE trial_intermediate_values (trial_intermediate_value_id INTEGER NOT NULL,
  trial_id INTEGER NOT NULL, step INTEGER NOT NULL, intermediate_value FLOAT,
  intermediate_value_type VARCHAR(7) NOT NULL, PRIMARY KEY (trial_intermediate_value_id),
  UNIQUE (trial_id, step), FOREIGN KEY(trial_id) REFERENCES trials (trial_id));
CREATE TABLE trial_heartbeats (trial_heartbeat_id INTEGER NOT NULL, trial_id INTEGER NOT NULL,
  heartbeat DATETIME NOT NULL, PRIMARY KEY (trial_heartbeat_id), UNIQUE (trial_id),
  FOREIGN KEY(trial_id) REFERENCES trials (trial_id));
CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL,
  CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num));
INSERT INTO version_info VALUES (1, 12, '5.0.0');
INSERT INTO alembic_version VALUES ('v3.2.0.a');
)";

// event_key is study_id * 2^40 + the event's id: one tree that grows at its end, where a key of two
// columns would be a second one. The trigger follows Optuna's delete_study, so that a later study
// of the same id does not find an old log.
constexpr const char* kOwnTables = R"(
CREATE TABLE IF NOT EXISTS muster_studies (study_id INTEGER NOT NULL PRIMARY KEY,
  description TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS muster_trials (trial_id INTEGER NOT NULL PRIMARY KEY,
  study_id INTEGER NOT NULL, number INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS muster_events (event_key INTEGER NOT NULL PRIMARY KEY,
  time REAL NOT NULL, trial INTEGER NOT NULL, kind TEXT NOT NULL, payload TEXT NOT NULL);
CREATE VIEW IF NOT EXISTS muster_log (study_id, id, time, trial, kind, payload) AS
  SELECT event_key >> 40, event_key & 1099511627775, time, trial, kind, payload FROM muster_events;
CREATE VIEW IF NOT EXISTS muster_metrics (study_id, trial, step, time, name, value) AS
  SELECT event_key >> 40, trial, json_extract(payload, '$.t'), time, m.key, m.value
  FROM muster_events, json_each(payload, '$.metrics') AS m WHERE kind = 'reported';
CREATE TRIGGER IF NOT EXISTS muster_forget AFTER DELETE ON studies BEGIN
  DELETE FROM muster_studies WHERE study_id = OLD.study_id;
  DELETE FROM muster_trials WHERE study_id = OLD.study_id;
  DELETE FROM muster_events
    WHERE event_key BETWEEN OLD.study_id << 40 AND ((OLD.study_id + 1) << 40) - 1;
END;
)";

// The trigger is one of its own, since the other may be there already.
constexpr const char* kOutlines = R"(
CREATE TABLE IF NOT EXISTS muster_outlines (study_id INTEGER NOT NULL PRIMARY KEY,
  event INTEGER NOT NULL, time REAL NOT NULL, outline TEXT NOT NULL);
CREATE TRIGGER IF NOT EXISTS muster_forget_outline AFTER DELETE ON studies BEGIN
  DELETE FROM muster_outlines WHERE study_id = OLD.study_id;
END;
CREATE TABLE IF NOT EXISTS muster_calls (study_id INTEGER NOT NULL, event INTEGER NOT NULL,
  behind INTEGER NOT NULL, time REAL NOT NULL, rules TEXT NOT NULL, chain TEXT NOT NULL,
  calls TEXT NOT NULL, PRIMARY KEY (study_id, event));
CREATE TRIGGER IF NOT EXISTS muster_forget_calls AFTER DELETE ON studies BEGIN
  DELETE FROM muster_calls WHERE study_id = OLD.study_id;
END;
)";

int64_t count(Database& database, std::string_view sql) {
  Statement statement = database.prepare(sql);
  return statement.step() ? statement.integer(0) : 0;
}

Error other_schema(const Database& database, std::string value) {
  return usage_error(
      {.refused = concat(database.file().string(), " has another schema than Optuna 5's"),
       .rule = concat("schema version ", kOptunaSchema, ", revision ", kOptunaRevision),
       .value = std::move(value),
       .hint = "an older one: `optuna storage upgrade --storage sqlite:///FILE`"});
}

/// SQLite says which mode it is in now, also where that is another one than was wished.
std::string journal_mode(Database& database, std::string_view sql) {
  Statement mode = database.prepare(sql);
  std::string now = mode.step() ? std::string(mode.text(0)) : "unknown";
  mode.reset();
  return now;
}

/// Several processes may make the file at the same time, and for this change SQLite does not wait
/// for the others by itself.
std::string change_to_log(Database& database) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::duration<double>(database.patience_s());
  while (true) {
    try {
      return journal_mode(database, "PRAGMA journal_mode = WAL");
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kEnvironment || Clock::now() >= until) throw;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void keep_log(Database& database) {
  if (journal_mode(database, "PRAGMA journal_mode") == "wal") return;
  const std::string now = change_to_log(database);
  if (now == "wal") return;
  throw environment_error({.refused = concat("cannot keep ", database.file().string()),
                           .rule = "its file system can keep a write-ahead log",
                           .value = concat("journal mode ", now),
                           .hint = "choose a storage on a local disk"});
}

}  // namespace

bool has_own_tables(Database& database) {
  return count(database,
               "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN "
               "('muster_studies', 'muster_events', 'muster_trials')") == 3;
}

void check_schema(Database& database) {
  if (count(database,
            "SELECT count(*) FROM sqlite_master WHERE name IN "
            "('studies', 'trials', 'version_info', 'alembic_version')") != 4) {
    throw usage_error({.refused = concat(database.file().string(), " is no study database"),
                       .rule = "it is an SQLite database without Optuna's tables",
                       .hint = "name a file that `muster tune` or Optuna wrote"});
  }
  Statement version = database.prepare(
      "SELECT schema_version, (SELECT version_num FROM alembic_version) FROM version_info");
  if (!version.step()) throw other_schema(database, "none");
  if (version.integer(0) != kOptunaSchema || version.text(1) != kOptunaRevision)
    throw other_schema(database, concat(version.integer(0), ", ", version.text(1)));
}

void make_outlines(Database& database) { database.run(kOutlines); }

void make_schema(Database& database) {
  const auto is_empty = [&] { return count(database, "SELECT count(*) FROM sqlite_master") == 0; };
  if (!is_empty()) check_schema(database);
  keep_log(database);
  if (has_own_tables(database)) return;
  Transaction transaction(database);
  if (is_empty()) database.run(kOptunaTables);
  check_schema(database);
  database.run(kOwnTables);
  transaction.commit();
}

}  // namespace muster::tune
