// A bracket of HyperBand while its trials run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "muster/tune/schedule/hyperband/brackets.h"
#include "muster/tune/schedule/scheduler.h"

namespace muster::tune {

/// Successive halving with all trials of a rung waited for. Trials join until the bracket is full or
/// closed; each pauses at the rung that the bracket has come to; when all that are alive wait there
/// and no more will join, the best of them go on. One that fails or ends leaves the bracket as its
/// worst: as many go on as if it were there, while there are some. Equal scores: the lower number is
/// the better.
class BracketRun {
 public:
  using Order = Scheduler::Promotion;

  /// `words`: only for reasons. Wants reduction_factor `eta` >= 2.
  BracketRun(HyperbandBracket plan, int64_t eta, Mode mode);

  bool is_open() const { return !closed_; }  ///< trials may join
  bool is_done() const { return closed_ && members_.empty() && ends_.empty(); }

  void join(int64_t number);
  void close();  ///< no more trials join

  /// What the trial pauses at: the rung that the bracket has come to.
  int64_t rung() const { return plan_.rungs[rung_]; }
  std::string rung_text() const;  ///< "rung 9 of bracket 3"
  bool is_last_rung() const { return rung_ + 1 == plan_.rungs.size(); }

  /// The trial reported `score`, a finite one, at `t` >= rung(), and is told to pause.
  void pausing(int64_t number, int64_t t, double score);
  /// It has given its slot back. The best go on with this one, if all others wait.
  void waits(int64_t number);
  /// It is over, or leaves for other reasons. Any number.
  void leave(int64_t number);

  /// Trials that end here, and those that go on, best first: each once.
  std::optional<Order> take_end();
  std::optional<Order> take_up();

  /// "bracket 4: 20 of 27 at rung 3", "bracket 3: 20 of 34 started, 8 at rung 3".
  std::string text() const;

 private:
  struct Member {
    int64_t t = 0;
    double score = 0;
    bool waits = false;
  };
  struct Ranked {
    int64_t number;
    Member member;
  };
  void halve_if_due();
  void halve();
  std::string end_text(const Ranked& member, const Ranked& last_up, size_t n) const;

  HyperbandBracket plan_;
  int64_t eta_;
  Mode mode_;
  bool closed_ = false;
  int64_t started_ = 0;
  size_t rung_ = 0;     // that its trials run to, or wait at
  size_t waiting_ = 0;  // members
  std::unordered_map<int64_t, Member> members_;
  std::deque<Order> ends_, ups_;
};

}  // namespace muster::tune
