// Studies, events and trials as they are read from the tables. Only for the sources of this room.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "muster/base/json_fwd.h"
#include "muster/tune/storage/sqlite.h"
#include "muster/tune/storage/storage.h"
#include "muster/tune/storage/waiting_reader.h"

namespace muster::tune {

inline constexpr int kEventBits = 40;  ///< of muster_events.event_key, below the study's id
inline constexpr int64_t kLastEvent = (int64_t{1} << kEventBits) - 1;  ///< the highest id

inline int64_t event_key(int64_t study_id, int64_t event_id) {
  return (study_id << kEventBits) + event_id;
}

/// The id of a study in the tables.
std::optional<int64_t> find_study_id(Database& database, std::string_view name);

/// A row of muster_events: event_key, time, trial, kind, payload.
Event event_of(Statement& row, int64_t study_id);
/// The events of the study after event `after`, up to event `last`, in order.
void visit_events(Database& database,
                  int64_t study_id,
                  int64_t after,
                  int64_t last,
                  const std::function<void(Event&& event)>& visit);
/// All of the study, or those after event `after`.
std::vector<Event> select_events(Database& database, int64_t study_id, int64_t after = 0);
/// The id of its newest event; 0: none.
int64_t select_last_event(Database& database, int64_t study_id);
/// The reports at the end of the log behind its last event of another kind, at most `most`.
std::vector<Event> select_last_reports(Database& database, int64_t study_id, size_t most);
/// Of an event up to `last`; none if the log has another event in its place.
Storage::Outline select_outline(Database& database, int64_t study_id, int64_t last);
void put_outline(Database& database,
                 int64_t study_id,
                 const Event& newest,
                 const std::string& text);
std::vector<CallPiece> select_call_pieces(Database& database, int64_t study_id, int64_t up_to);
/// Without its calls; of event 0 if there is none or the log has another event in its place.
CallPiece select_last_call_piece(Database& database, int64_t study_id);
void put_call_piece(Database& database,
                    int64_t study_id,
                    const Event& newest,
                    const CallPiece& piece);
std::vector<ForeignTrial> select_foreign_trials(Database& database, int64_t study_id);
/// What opening a study has to know of Optuna's table of trials, by one walk over the study's rows.
struct OpenedTrials {
  struct Running {
    int64_t number = 0, trial_id = 0;
    double started_s = 0;
  };
  std::vector<Running> running;  ///< of our log
  std::vector<int64_t> others;   ///< trial_ids of those that are not of our log
  int64_t newest = -1;           ///< trial_id, of all studies; -1: there is none
};
OpenedTrials select_opened_trials(Database& database, int64_t study_id);

/// The trials of a study that are not of its log: those that wait to be run, and those that are
/// over, each once. A refresh looks at rows that are new since the last one and at those that were
/// not over, so that a long study is not looked through again and again.
class OtherTrials {
 public:
  /// `opened`: of the same transaction.
  OtherTrials(Database& database, int64_t study_id, const OpenedTrials& opened);
  void refresh();
  std::vector<WaitingTrial> waiting() const;
  std::vector<ForeignTrial> take_finished();  ///< since the last call

 private:
  void find_new();
  void look_at_open();
  bool look_at(int64_t trial_id);
  void take_waiting(int64_t trial_id, int64_t number);

  int64_t study_id_;
  Database& database_;
  Statement newest_, new_rows_, row_;
  WaitingReader reader_;
  int64_t seen_ = -1;                        // the largest trial_id
  std::set<int64_t> open_;                   // trial_ids of those that are not over
  std::map<int64_t, WaitingTrial> waiting_;  // by trial_id
  std::vector<int64_t> finished_;            // trial_ids, not taken yet
};
StudySummary select_summary(Database& database, int64_t study_id);

/// The stored description, or null.
Json select_description(Database& database, int64_t study_id);

/// The parameters that any trial of the study has, as Optuna's tables name them.
std::set<std::string> select_parameter_names(Database& database, int64_t study_id);

}  // namespace muster::tune
