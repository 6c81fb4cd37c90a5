// What a running study knows besides its core, for whoever shows it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace muster::tune {

/// Time, machine and places of the trials, beside a StudyCore.
struct StatusFacts {
  double now_s = 0, started_s = 0;
  double before_s = 0;      ///< that processes before this one ran the study: StudyCore::used_s()
  std::string resources;    ///< ResourcePool::used()
  std::string pending_why;  ///< ResourcePool::why_not()
  std::string storage;
  int64_t planned = 0;                                     ///< trials of the study, -1: without end
  std::vector<std::pair<int64_t, std::string>> locations;  ///< running trial, "host:pid"
};

}  // namespace muster::tune
