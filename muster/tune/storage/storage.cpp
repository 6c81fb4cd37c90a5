#include "muster/tune/storage/storage.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <variant>

#include <sys/stat.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/tune/core/description.h"
#include "muster/tune/space/python_text.h"
#include "muster/tune/storage/optuna_rows.h"
#include "muster/tune/storage/optuna_schema.h"
#include "muster/tune/storage/study_tables.h"

namespace muster::tune {
namespace {

// The write-ahead log is copied into the database when it has so many pages (16 MiB): with
// SQLite's own 1,000 a fast study would wait for the disk four times as often.
constexpr const char* kPragmas =
    "PRAGMA wal_autocheckpoint = 4000; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -16384;";

bool is_report(const Event& event) { return std::holds_alternative<Reported>(event.what); }

/// Which file a path leads to.
struct FileIdentity {
  explicit FileIdentity(const std::filesystem::path& file) {
    struct stat info {};
    if (::stat(file.c_str(), &info) == 0) device = info.st_dev, inode = info.st_ino;
  }
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;

  dev_t device = 0;
  ino_t inode = 0;
};

/// Finds or makes the study; the id of it.
class StudyOpener {
 public:
  StudyOpener(Database& database, const Json& description)
      : database_(database), description_(description), name_(text("name")) {}

  int64_t open() {
    Transaction transaction(database_);
    const auto found = find_study_id(database_, name_);
    const int64_t id = found ? *found : make();
    const Json stored = found ? select_description(database_, id) : Json();
    if (found) check(id, stored);
    write_description(id, stored.is_null() ? description_ : as_old_as(stored, description_));
    transaction.commit();
    return id;
  }

  std::string text(const char* key) const {
    if (!description_.contains(key) || !description_[key].is_string())
      throw internal_error({.refused = concat("a study's description without ", key)});
    return description_[key];
  }

 private:
  static std::string direction_of(Mode mode) {
    return mode == Mode::kMin ? "MINIMIZE" : "MAXIMIZE";
  }

  /// All objectives of the description.
  std::vector<Objective> objectives() const {
    std::vector<Objective> all = described_goals(description_).objectives;
    if (all.empty()) all.push_back({text("metric"), parse_mode(text("mode"))});
    return all;
  }

  std::vector<std::string> directions() const {
    std::vector<std::string> all;
    for (const Objective& objective : objectives()) all.push_back(direction_of(objective.mode));
    return all;
  }

  int64_t make() {
    if (name_.size() > kMostStudyName) {
      throw usage_error({.refused = "a study's name",
                         .rule = concat("it has at most ", kMostStudyName, " bytes"),
                         .value = name_});
    }
    database_.prepare("INSERT INTO studies (study_name) VALUES (?)").bind(1, name_).run();
    const int64_t id = database_.last_rowid();
    std::vector<std::string> names;
    for (const Objective& objective : objectives()) {
      database_
          .prepare("INSERT INTO study_directions (direction, study_id, objective) VALUES (?, ?, ?)")
          .bind(1, direction_of(objective.mode))
          .bind(2, id)
          .bind(3, static_cast<int64_t>(names.size()))
          .run();
      names.push_back(python_json(objective.metric));
    }
    const std::string metric = concat('[', join(names, ", "), ']');
    database_
        .prepare(
            "INSERT INTO study_system_attributes (study_id, \"key\", value_json) "
            "VALUES (?, 'study:metric_names', ?)")
        .bind(1, id)
        .bind(2, metric)
        .run();
    return id;
  }

  /// The stored study is this one. One that Optuna made only has directions.
  void check(int64_t id, const Json& stored) {
    Statement rows = database_.prepare(
        "SELECT direction FROM study_directions WHERE study_id = ? ORDER BY objective");
    rows.bind(1, id);
    std::vector<std::string> theirs;
    while (rows.step()) theirs.emplace_back(rows.text(0));
    const bool fits = theirs == directions();
    std::vector<std::string> differences =
        stored.is_null() ? other_parameters(id) : describe_differences(stored, description_);
    if (!fits && (stored.is_null() || differences.empty())) {
      const char* key = directions().size() == 1 && theirs.size() == 1 ? "direction" : "directions";
      differences.push_back(concat("- ", key, " = ", join(theirs, ", ")));
      differences.push_back(concat("+ ", key, " = ", join(directions(), ", ")));
    }
    if (differences.empty()) return;
    throw usage_error(
        {.refused =
             concat("study \"", name_, "\" in ", database_.file().string(), " is another one"),
         .rule = concat("a study is resumed as it was started; changed:\n  ",
                        join(differences, "\n  ")),
         .hint = "undo the change, or give the study another name or storage"});
  }

  /// Of a study that Optuna made, whose trials have parameters that the space has not: nobody would
  /// see these any more.
  std::vector<std::string> other_parameters(int64_t id) {
    std::set<std::string> theirs = select_parameter_names(database_, id);
    std::vector<std::string> added, lines;
    for (const Json& parameter : description_.value("space", Json::array())) {
      const std::string name = parameter.value("name", "");
      const auto is_it = [&](const std::string& of) { return of.substr(0, of.find('#')) == name; };
      if (std::erase_if(theirs, is_it) == 0) added.push_back(concat("+ ", name));
    }
    if (theirs.empty()) return {};
    for (const std::string& name : theirs)
      lines.push_back(concat("- ", name, ", which Optuna's trials have"));
    lines.insert(lines.end(), added.begin(), added.end());
    return lines;
  }

  void write_description(int64_t id, const Json& description) {
    const std::string stored = json_text(description);
    database_.prepare("INSERT OR REPLACE INTO muster_studies (study_id, description) VALUES (?, ?)")
        .bind(1, id)
        .bind(2, stored)
        .run();
  }

  Database& database_;
  const Json& description_;
  std::string name_;
};

class SqliteStorage : public Storage {
 public:
  SqliteStorage(const std::filesystem::path& file,
                const Space& space,
                const Json& description,
                const StorageOptions& options)
      : database_(file, Database::Access::kWrite, options.lock_patience_s),
        busy_below_(options.busy_below_s) {
    make_schema(database_);
    database_.run(kPragmas);
    database_.run(options.durable ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL");
    StudyOpener opener(database_, description);
    study_id_ = opener.open();
    identity_ = FileIdentity(file);
    version_ = database_.prepare("PRAGMA data_version");
    row_ = database_.prepare(
        "SELECT study_name, (SELECT time FROM muster_events WHERE event_key = ?2) "
        "FROM studies WHERE study_id = ?1");
    name_ = opener.text("name");
    Transaction transaction(database_);  // one moment for all that is learnt from the tables
    make_outlines(database_);
    seen_version_ = version_now();
    seen_ = select_last_event(database_, study_id_);
    seen_time_s_ = row_now().value_or(0);
    const OpenedTrials opened = select_opened_trials(database_, study_id_);
    others_.emplace(database_, study_id_, opened);
    rows_.emplace(database_,
                  OptunaRows::Target{.study_id = study_id_,
                                     .metric = opener.text("metric"),
                                     .mode = parse_mode(opener.text("mode")),
                                     .scope = parse_scope(opener.text("scope")),
                                     .goals = described_goals(description)},
                  space,
                  opened);
    show_what_was_put_off();
    transaction.commit();
    rows_->keep();
    add_event_ = database_.prepare(
        "INSERT INTO muster_events (event_key, time, trial, kind, payload) VALUES (?, ?, ?, ?, ?)");
  }

  ~SqliteStorage() override {
    if (put_off_.empty()) return;
    try {
      Transaction transaction(database_);
      take_news();  // the study may be gone
      show({});
      transaction.commit();
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the next to open it does it
    }
  }

  void transact(const Make& make) override {
    check_file();
    std::span<const Event> events;
    bool put_off = false;
    try {
      Transaction transaction(database_);
      std::vector<Event> theirs = take_news();
      const bool alone = theirs.empty();
      events = make(std::move(theirs));
      if (events.empty() && (alone || put_off_.empty())) return;
      put_off = may_put_off(events) && alone;
      for (const Event& event : events) log(event);
      if (!put_off) show(events);
      transaction.commit();
    } catch (...) {
      rows_->undo();
      throw;
    }
    rows_->keep();
    if (put_off) {
      put_off_.insert(put_off_.end(), events.begin(), events.end());
    } else {
      put_off_.clear();
    }
    if (!events.empty()) see(events.back());
  }

  std::vector<Event> news() override {
    if (!(FileIdentity(database_.file()) == identity_)) return {};  // transact() will say so
    return take_news();
  }

  void for_each_event(const std::function<void(Event&& event)>& visit, int64_t after) override {
    take_news();
    visit_events(database_, study_id_, after, seen_, visit);  // what comes meanwhile, news() has
  }
  Outline outline() override { return select_outline(database_, study_id_, seen_); }
  void keep_outline(const Event& newest, const std::string& text) override {
    put_outline(database_, study_id_, newest, text);
  }
  std::vector<CallPiece> call_pieces(int64_t up_to) override {
    return select_call_pieces(database_, study_id_, up_to);
  }
  CallPiece last_call_piece() override { return select_last_call_piece(database_, study_id_); }
  void keep_call_piece(const Event& newest, const CallPiece& piece) override {
    put_call_piece(database_, study_id_, newest, piece);
  }

  std::vector<WaitingTrial> waiting_trials() override { return others_->waiting(); }
  std::vector<ForeignTrial> finished_trials() override { return others_->take_finished(); }

 private:
  // Note [Busy studies]
  // A report costs one page of the log and two of Optuna's tables. While reports come faster than
  // 400 a second (StorageOptions::busy_below_s), the latter are put off: by 0.1 s (40 times as
  // long) or 64 events at most, and never past another kind of event. The log alone is what a study
  // is resumed from; what it has and Optuna's tables have not is always a run of reports at its
  // end, which opening the storage looks at. So whoever appends behind reports of others brings
  // these into Optuna's tables too: it cannot know whether they were put off.
  static constexpr double kLongestPutOff = 40;
  static constexpr int kFastBefore = 8;
  static constexpr size_t kMostPutOff = 64;

  bool may_put_off(std::span<const Event> events) {
    const auto now = std::chrono::steady_clock::now();
    fast_appends_ = now - last_append_ < busy_below_ ? fast_appends_ + 1 : 0;
    last_append_ = now;
    if (put_off_.empty()) put_off_since_ = now;
    return fast_appends_ >= kFastBefore && now - put_off_since_ < kLongestPutOff * busy_below_ &&
           put_off_.size() + events.size() <= kMostPutOff &&
           std::ranges::all_of(events, &is_report);
  }

  int64_t version_now() {
    const int64_t version = version_.step() ? version_.integer(0) : 0;
    version_.reset();
    return version;
  }

  void see(const Event& event) {
    seen_ = event.id;
    seen_time_s_ = event.time_s;
  }

  /// When the newest event that is known happened, by the file: 0 if none is known. Nothing if the
  /// study has another name now, or that event is not there.
  std::optional<double> row_now() {
    row_.bind(1, study_id_).bind(2, event_key(study_id_, seen_));
    std::optional<double> time_s;
    if (row_.step() && row_.text(0) == name_ && (seen_ == 0 || !row_.is_null(1)))
      time_s = seen_ == 0 ? 0 : row_.number(1);
    row_.reset();
    return time_s;
  }

  /// The row of a deleted study is given to the next one that is made: events of this one would
  /// become that one's.
  void check_study() {
    if (row_now() == seen_time_s_) return;
    throw usage_error(
        {.refused = concat("study \"", name_, "\" is gone"),
         .rule = concat("it was deleted from ", database_.file().string(), " while it was open"),
         .hint = "what runs of it ends; the same command begins it anew"});
  }

  /// What other connections have committed since the last look.
  std::vector<Event> take_news() {
    const int64_t version = version_now();
    if (version == seen_version_) return {};
    check_study();
    std::vector<Event> theirs = select_events(database_, study_id_, seen_);
    others_->refresh();
    for (const Event& event : theirs) {
      rows_->learn(event);
      if (is_report(event)) put_off_.push_back(event);
      see(event);
    }
    rows_->keep();
    seen_version_ = version;
    return theirs;
  }

  /// Brings Optuna's tables up to the log.
  void show(std::span<const Event> events) {
    for (const Event& event : put_off_) {
      if (rows_->is_open(event.trial)) rows_->write(event);
    }
    for (const Event& event : events) rows_->write(event);
  }

  /// What a writer that died had put off.
  void show_what_was_put_off() {
    for (const Event& event : select_last_reports(database_, study_id_, kMostPutOff)) {
      if (rows_->is_open(event.trial)) rows_->write(event);
    }
  }

  void log(const Event& event) {
    const std::string payload = payload_text(event);
    add_event_.bind(1, event_key(study_id_, event.id))
        .bind(2, event.time_s)
        .bind(3, event.trial)
        .bind(4, kind_of(event))
        .bind(5, payload)
        .run();
  }

  /// Without this, events would go to a file that nobody finds any more.
  void check_file() const {
    if (FileIdentity(database_.file()) == identity_) return;
    throw environment_error({.refused = concat("cannot write ", database_.file().string()),
                             .rule = "the file was removed or replaced while the study runs",
                             .hint = "put it back where it was"});
  }

  Database database_;
  int64_t study_id_ = 0;
  FileIdentity identity_{{}};
  Statement version_;  // changes when another connection commits
  int64_t seen_version_ = 0;
  int64_t seen_ = 0;        // the newest event that this process knows
  double seen_time_s_ = 0;  // when it happened
  std::string name_;        // of the study
  Statement row_;
  std::optional<OtherTrials> others_;
  std::optional<OptunaRows> rows_;
  Statement add_event_;
  std::chrono::duration<double> busy_below_;
  std::vector<Event> put_off_;  // in the log, not yet in Optuna's tables
  std::chrono::steady_clock::time_point put_off_since_,
      last_append_ = std::chrono::steady_clock::now();
  int fast_appends_ = 0;
};

}  // namespace

std::unique_ptr<Storage> open_storage(const std::filesystem::path& file,
                                      const Space& space,
                                      const Json& description,
                                      const StorageOptions& options) {
  return std::make_unique<SqliteStorage>(file, space, description, options);
}

}  // namespace muster::tune
