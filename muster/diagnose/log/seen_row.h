// What a LogReader remembers of a row, and how parts are given out. Private to the room.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "muster/diagnose/log/log_diagnosis.h"

namespace muster::diagnose {

struct SeenRow {
  const ErrorRow* row = nullptr;
  int64_t count = 0;
  int64_t first = 0;               // its number among all lines that were recognised
  Depth depth = Depth::kPerhaps;   // the nearest of its sightings
  std::optional<int64_t> said_at;  // the earliest of its sightings that have a clock; see glog_time
  bool only_warnings = true;
  int64_t passing = 0;             // of the sightings, those of a measure that may be finite later
  bool has_passed = false;         // all are such, and each measure was finite again
  int64_t tentative = 0;           // of the sightings, warnings and those of what is tried again
  int64_t overcome = 0;            // of these, those that a line behind them says to have gone well
  bool by_likeness = false;        // no line fits it; see Note [Likeness]
  bool without_rank = false;       // a sighting of nobody in particular
  std::set<int64_t> ranks;         // at most kMostRanks
  std::vector<Sighting> evidence;  // at most kMostEvidence
  std::vector<bool> cause_holds;   // by cause

  static constexpr size_t kMostRanks = 4096;
  static constexpr size_t kMostEvidence = 3;
};

/// Gives each row its part; see Note [Depth]. Pure.
std::vector<Finding> findings_of(const std::vector<SeenRow>& seen);

}  // namespace muster::diagnose
