// Failed trials of ours that are put into the study once more: how the tables tell them, and what the log
// has of them. Only for the sources of this room.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "muster/tune/space/space.h"
#include "muster/tune/storage/sqlite.h"
#include "muster/tune/trial/trial.h"

namespace muster::tune {

/// When the study's first event happened; nothing for one without a log.
std::optional<double> select_began(Database& database, int64_t study_id);

struct OnceMore {
  int64_t number = 0;  ///< of the failed trial, in our count
  Point point;         ///< that one's; empty where an older version put it in
};

class OnceMoreReader {
 public:
  OnceMoreReader(Database& database, int64_t study_id);

  /// Nothing for any other trial; nor for one of another study, whose attributes Optuna's copy_study
  /// has copied.
  std::optional<OnceMore> read(int64_t trial_id);

 private:
  Database& database_;
  int64_t study_id_;
  Statement attributes_;
};

/// The attribute (kFailedAttribute) by which read() knows study and point.
std::string failed_attribute(double began_s, const Point& point);

struct LoggedTrial {
  Point point;                    ///< the newest that it had
  std::optional<TrialState> end;  ///< how its newest attempt ended; nothing if it has not
};

/// What the log has of these trials, by one walk over its rows.
std::map<int64_t, LoggedTrial> select_logged_trials(Database& database,
                                                    int64_t study_id,
                                                    std::span<const int64_t> numbers);

}  // namespace muster::tune
