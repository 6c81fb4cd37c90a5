// What the searcher and the scheduler of a study are told, written down: Note [Calls beside the log].
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/tune/schedule/scheduler.h"
#include "muster/tune/search/searcher.h"

namespace muster::tune {

class SearchDesk;

/// Not thread-safe: who tells has the study.
class HeardCalls {
 public:
  /// `next_event`: the id of the event to which a call belongs that is made now.
  explicit HeardCalls(const int64_t& next_event) : next_event_(next_event) {}

  /// Keeps calls that belong to events behind `event`, those to `searcher` and those to `scheduler`.
  void keep_behind(int64_t event, bool searcher, bool scheduler);
  /// Keeps none any more, and forgets what there is.
  void stop();
  bool keeps() const { return of_searcher_ || of_scheduler_; }
  /// Whether it keeps those; reports, of which there are most, ask before they call.
  bool keeps_searcher() const { return of_searcher_; }
  bool keeps_scheduler() const { return of_scheduler_; }
  /// All calls that belong to events behind this one are there.
  int64_t since() const { return since_; }

  /// A line for each call that belongs to an event behind `event`, which is at least since().
  std::string behind(int64_t event) const;
  void forget_up_to(int64_t event);

  // To the searcher.
  void suggested(int64_t number, const Point& point, std::string_view memo);
  void reported(int64_t number, int64_t t, double score);
  void paused(int64_t number);
  void told(const FinishedTrial& trial);

  // To the scheduler.
  void on_start(int64_t number, const Point& point);
  void on_report(int64_t number, int64_t t, double score);
  void on_checkpoint(int64_t number, int64_t t);
  void on_end(int64_t number, TrialState state);
  void on_pause(int64_t number);
  void promoted();  ///< promote() has named a trial
  void on_resume(int64_t number, const Point& point);
  void no_more_trials();

 private:
  struct Mark {
    int64_t event;
    size_t place;  // of its first call in text_
  };
  bool begins(bool wanted);

  const int64_t& next_event_;
  bool of_searcher_ = false, of_scheduler_ = false;
  int64_t since_ = 0;
  std::string text_;
  std::vector<Mark> marks_;  // events and places rise
};

/// Makes the calls of these lines, those to the searcher only if there is one (not null), likewise the
/// scheduler's. `dimensions`: of points. Throws an internal error for lines that HeardCalls does not write.
void tell_again(std::string_view lines,
                size_t dimensions,
                SearchDesk* searcher,
                Scheduler* scheduler);

}  // namespace muster::tune
