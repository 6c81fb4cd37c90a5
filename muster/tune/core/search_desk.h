// The searcher of a study, which may be asked on another thread than it is told.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "muster/tune/core/heard_calls.h"
#include "muster/tune/search/searcher.h"

namespace muster::tune {

// Note [Slow searchers]
// A model may think for seconds, in which reports are to be answered and signals heard. So a question
// can be answered on a thread of the caller's: from when it is put until it is answered, what the
// searcher is told waits here, in its order. The answer thus rests on what was known when the
// question was put ("up to event N", TrialAdded::known), and the searcher still hears everything in
// the order of the log: a replay, which asks nothing, tells it the same (Note [Searchers]). With one
// slot nothing happens meanwhile, and the answer is the one that it would have given at once.
// That there is nothing yet to suggest holds only while nothing was told since; a point holds.

class SearchDesk {
 public:
  /// `make` makes the searcher with this space, which lives as long as it. `heard`, which outlives this,
  /// writes down what it is told.
  SearchDesk(const Space& space,
             const std::function<std::unique_ptr<Searcher>(const Space& space)>& make,
             HeardCalls* heard = nullptr);

  void suggested(int64_t number, const Point& point, const std::string& memo);
  void reported(int64_t number, int64_t t, double score);
  void paused(int64_t number);
  void told(const FinishedTrial& trial);

  struct Answer {
    Searcher::Suggestion suggestion;
    int64_t known = 0;  ///< of the question
  };

  bool is_quick() const;
  bool has_history() const;
  /// Waits for a question that is being answered.
  std::string introduction() const;

  /// The searcher's answer, now. Waits for a question that is being answered.
  Searcher::Suggestion ask(int64_t number, const Point& partial);

  /// The answer to this question if it is there and holds; else nothing, and the question is put: `think`
  /// is then to be called, once, on any thread. It is empty when one is being answered already.
  /// Throws what the searcher threw.
  std::optional<Answer> look(int64_t number,
                             const Point& partial,
                             int64_t known,
                             std::function<void()>& think);

 private:
  struct State;
  template <class Call, class Later>
  void tell(Call call, Later later);

  std::shared_ptr<State> state_;  // also of who thinks
  HeardCalls* heard_;
};

}  // namespace muster::tune
