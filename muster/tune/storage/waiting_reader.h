// Trials that wait to be run, as they are read from the tables. Only for the sources of this room.
#pragma once

#include <cstdint>
#include <string>

#include "muster/tune/storage/once_more.h"
#include "muster/tune/storage/sqlite.h"
#include "muster/tune/storage/storage.h"

namespace muster::tune {

/// Reads rows of trials that wait.
class WaitingReader {
 public:
  WaitingReader(Database& database, int64_t study_id);

  /// What is fixed of it; or why it cannot be read, as `strange`.
  WaitingTrial read(int64_t trial_id, int64_t number);

 private:
  void add_params(WaitingTrial& trial, int64_t trial_id);
  void add_attributes(WaitingTrial& trial, int64_t trial_id);

  Statement params_, attributes_;
  OnceMoreReader once_more_;
};

/// Why no tuner can run the trial, on one line; empty if one can. Pure.
std::string why_in_vain(const WaitingTrial& trial, const Space& space);

}  // namespace muster::tune
