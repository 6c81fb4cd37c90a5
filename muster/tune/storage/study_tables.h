// Studies, events and trials as they are read from the tables. Only for the sources of this room.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "muster/base/json_fwd.h"
#include "muster/tune/storage/sqlite.h"
#include "muster/tune/storage/storage.h"

namespace muster::tune {

inline constexpr int kEventBits = 40;  ///< of muster_events.event_key, below the study's id

inline int64_t event_key(int64_t study_id, int64_t event_id) {
  return (study_id << kEventBits) + event_id;
}

/// The id of a study in the tables.
std::optional<int64_t> find_study_id(Database& database, std::string_view name);

/// All of the study, or those after event `after`.
std::vector<Event> select_events(Database& database, int64_t study_id, int64_t after = 0);
/// The id of its newest event; 0: none.
int64_t select_last_event(Database& database, int64_t study_id);
/// The reports at the end of the log behind its last event of another kind, at most `most`.
std::vector<Event> select_last_reports(Database& database, int64_t study_id, size_t most);
std::vector<ForeignTrial> select_foreign_trials(Database& database, int64_t study_id);
/// The trials of a study that wait to be run, each once: rows that are new since the last call and
/// those of it that still wait, so that a long study is not looked through again and again.
class WaitingTrials {
 public:
  WaitingTrials(Database& database, int64_t study_id);
  void refresh();
  std::vector<WaitingTrial> trials() const;

 private:
  void find_new();
  WaitingTrial read(int64_t trial_id, int64_t number);

  int64_t study_id_;
  Statement new_rows_, state_, params_, attributes_;
  int64_t seen_ = -1;                        // the largest trial_id
  std::map<int64_t, WaitingTrial> waiting_;  // by trial_id
};
StudySummary select_summary(Database& database, int64_t study_id);

/// The stored description, or null.
Json select_description(Database& database, int64_t study_id);

}  // namespace muster::tune
