// What trials were worth at each budget, and which budget BOHB models.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace muster::tune {

struct KdeSplitRule {
  size_t dimensions = 0;
  int64_t least_points = 0;   ///< of each half; at least dimensions + 1 whatever this says
  int64_t good_percent = 15;  ///< of all points that are good ones
};

/// How many points are good, and how many of those behind them are bad. Not always all: the
/// percents are rounded down. Nothing if there are too few for a model.
struct KdeSplit {
  size_t good = 0, bad = 0;
  friend bool operator==(const KdeSplit&, const KdeSplit&) = default;
};
std::optional<KdeSplit> kde_split(size_t points, const KdeSplitRule& rule);

/// Results by budget. The one modelled is the largest with enough results; those below it are
/// forgotten. Source: hpbandster 0.7.4, BOHB.new_result.
class Budgets {
 public:
  explicit Budgets(const KdeSplitRule& rule) : rule_(rule) {}

  /// Trial `row` was worth `loss` (smaller is better; infinity: bad) at a budget.
  void add(int64_t budget, size_t row, double loss);

  /// Trial `row` failed after budget `reached` (-1: it had none). It is a bad result of the next
  /// budget that any trial has reached, and of the modelled one if that is larger: hpbandster
  /// forgets the crashes of smaller budgets, and tries the like of them again.
  void add_failed(int64_t reached, size_t row);

  std::optional<int64_t> modelled() const { return modelled_; }

  /// Of the modelled budget, the best first, as they came where they are equal.
  struct Ranked {
    size_t row;
    double loss;
  };
  std::vector<Ranked> ranked() const;

  /// How many results the budgets have, for words: of the one that has most.
  size_t most_results() const;

 private:
  struct Entry {
    size_t row = 0;
    double loss = 0;
    int64_t order = 0;  // in which they came, over all budgets
  };
  struct Failed {
    int64_t reached = 0;
    Entry entry;
  };
  void choose(int64_t budget);

  KdeSplitRule rule_;
  std::map<int64_t, std::vector<Entry>> results_;
  std::vector<Failed> failed_;
  std::optional<int64_t> modelled_;
  int64_t next_order_ = 0;
};

}  // namespace muster::tune
