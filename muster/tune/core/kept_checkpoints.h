// Which checkpoints of a study's trials are needed, and which are not any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "muster/tune/core/event.h"

namespace muster::tune {

// Note [Kept checkpoints]
// Of each trial the newest `keep` checkpoints of its own are kept, also when it is over; and the one
// from which a trial that is not over would go on now, be it another trial's: a donor's checkpoint
// is pinned until who went on from it has one of its own. A trial that is over before counts it as
// its newest: it is the one that is shown as the trial's. What is left follows from the log alone, so
// that whoever removes files after a kill comes to the same; it is removed when the events that
// made it needless are stored, never before. Two reports may name one path: it is needed as
// long as one of them is.

class KeptCheckpoints {
 public:
  /// `keep` of each trial; 0: all there are.
  explicit KeptCheckpoints(int64_t keep) : keep_(keep) {}

  /// All events in their order.
  void add(const Event& event);

  /// Paths that have become needless since the last call, and are so now. None that a needed path is
  /// within.
  std::vector<std::string> take_needless();

  /// From now on names none: of a core that has not heard of all trials.
  void stop();

  bool is_needed(const std::string& path) const { return uses_.contains(path); }

 private:
  struct OfTrial {
    std::deque<std::string> own;  // oldest first
    std::string next;             // to go on from; empty: from the start, or over
  };

  void add_own(OfTrial& trial, const std::string& path);
  void end(OfTrial& trial);
  void set_next(OfTrial& trial, const std::string& path);
  void use(const std::string& path);
  void release(const std::string& path);

  int64_t keep_;
  std::unordered_map<int64_t, OfTrial> trials_;
  std::map<std::string, int64_t> uses_;
  std::set<std::string> needless_;
};

}  // namespace muster::tune
