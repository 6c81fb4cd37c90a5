// Studies of a file, looked at beside a running tuner; and what a Storage does by its other calls.
#include <array>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tune/storage/once_more.h"
#include "muster/tune/storage/optuna_schema.h"
#include "muster/tune/storage/storage.h"
#include "muster/tune/storage/study_tables.h"

namespace muster::tune {
namespace {

/// A checked file, one moment of it: what is written meanwhile is not seen.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& file) : database_(existing(file), kRead) {
    database_.run("BEGIN");
    check_schema(database_);
  }

  Database& database() { return database_; }

  int64_t study_id(std::string_view name) {
    const auto id = find_study_id(database_, name);
    if (!id) throw unknown(name);
    return *id;
  }

  std::vector<std::string> names() {
    std::vector<std::string> names;
    Statement rows = database_.prepare("SELECT study_name FROM studies ORDER BY study_name");
    while (rows.step()) names.emplace_back(rows.text(0));
    return names;
  }

  Error unknown(std::string_view name) {
    const std::vector<std::string> known = names();
    return usage_error(
        {.refused = concat(database_.file().string(), " has no study \"", name, "\""),
         .hint = known.empty() ? "it has none: `muster tune` and `muster study ask` make one"
                               : suggestion(name, known)});
  }

 private:
  static constexpr auto kRead = Database::Access::kRead;

  static const std::filesystem::path& existing(const std::filesystem::path& file) {
    std::error_code error;
    if (std::filesystem::is_directory(file, error)) {
      throw usage_error({.refused = concat(file.string(), " is a folder"),
                         .rule = "a study is stored in a file"});
    }
    if (!std::filesystem::exists(file, error))
      throw usage_error({.refused = concat("no such file: ", file.string())});
    return file;
  }

  Database database_;
};

}  // namespace

void Storage::append(std::span<const Event> events) {
  if (events.empty()) return;
  transact([&](const std::vector<Event>&) { return events; });
}

std::vector<Event> Storage::events() {
  std::vector<Event> all;
  for_each_event([&](Event&& event) { all.push_back(std::move(event)); });
  return all;
}

std::vector<StudySummary> studies_of(const std::filesystem::path& file) {
  Reader reader(file);
  std::vector<StudySummary> studies;
  for (const std::string& name : reader.names())
    studies.push_back(select_summary(reader.database(), reader.study_id(name)));
  return studies;
}

StudySummary find_study(const std::filesystem::path& file, std::string_view name) {
  Reader reader(file);
  if (!name.empty()) return select_summary(reader.database(), reader.study_id(name));
  const std::vector<std::string> names = reader.names();
  if (names.size() == 1) return select_summary(reader.database(), reader.study_id(names[0]));
  if (names.empty()) throw usage_error({.refused = concat(file.string(), " has no study")});
  throw usage_error({.refused = concat(file.string(), " has ", names.size(), " studies"),
                     .rule = "one is to be named",
                     .hint = concat("--study ", join(names, ", --study "))});
}

void require_study(const std::filesystem::path& file, std::string_view name) {
  Reader(file).study_id(name);
}

std::vector<Event> read_events(const std::filesystem::path& file, std::string_view study) {
  Reader reader(file);
  return select_events(reader.database(), reader.study_id(study));
}

void read_events(const std::filesystem::path& file,
                 std::string_view study,
                 const std::function<void(std::span<const Event> events)>& on_events) {
  constexpr size_t kPiece = 4096;
  Reader reader(file);
  std::vector<Event> piece;
  const auto hand_over = [&] {
    on_events(piece);
    piece.clear();
  };
  visit_events(reader.database(), reader.study_id(study), 0, kLastEvent, [&](Event&& event) {
    piece.push_back(std::move(event));
    if (piece.size() == kPiece) hand_over();
  });
  if (!piece.empty()) hand_over();
}

std::vector<Event> read_events_behind(const std::filesystem::path& file,
                                      std::string_view study,
                                      const Event& seen) {
  Reader reader(file);
  const int64_t id = reader.study_id(study);
  if (seen.id == 0) return select_events(reader.database(), id);
  std::vector<Event> events = select_events(reader.database(), id, seen.id - 1);
  if (events.empty() || events[0].id != seen.id || events[0].time_s != seen.time_s) {
    throw usage_error({.refused = concat("study \"", study, "\" is not the one that it was"),
                       .hint = "was it deleted, and begun anew?"});
  }
  events.erase(events.begin());
  return events;
}

std::vector<ForeignTrial> read_foreign_trials(const std::filesystem::path& file,
                                              std::string_view study) {
  Reader reader(file);
  return select_foreign_trials(reader.database(), reader.study_id(study));
}

std::map<int64_t, int64_t> read_optuna_numbers(const std::filesystem::path& file,
                                               std::string_view study) {
  Reader reader(file);
  const int64_t id = reader.study_id(study);
  std::map<int64_t, int64_t> numbers;
  if (!has_own_tables(reader.database())) return numbers;
  Statement rows = reader.database().prepare(
      "SELECT m.number, t.number FROM muster_trials AS m JOIN trials AS t USING (trial_id) "
      "WHERE m.study_id = ?");
  rows.bind(1, id);
  while (rows.step()) numbers.emplace(rows.integer(0), rows.integer(1));
  return numbers;
}

/// Optuna's table is never behind the log but by reports (Note [Busy studies]). What has failed there may
/// have ended well, without a number: that the log says.
std::optional<TrialState> read_end_of_trial(const std::filesystem::path& file,
                                            std::string_view study,
                                            int64_t number) {
  Reader reader(file);
  const int64_t id = reader.study_id(study);
  if (!has_own_tables(reader.database())) return std::nullopt;
  Statement row = reader.database().prepare(
      "SELECT t.state FROM muster_trials AS m JOIN trials AS t USING (trial_id) "
      "WHERE m.study_id = ? AND m.number = ?");
  row.bind(1, id).bind(2, number);
  if (!row.step()) return std::nullopt;
  const TrialState state = state_of(row.text(0));
  if (state == TrialState::kFailed) {
    const auto logged = select_logged_trials(reader.database(), id, std::array{number});
    return logged.at(number).end == TrialState::kComplete ? TrialState::kComplete : state;
  }
  return is_over(state) ? std::optional(state) : std::nullopt;
}

}  // namespace muster::tune
