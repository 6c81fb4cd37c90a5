// What a study has told, as rows of a Gaussian process.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "muster/tune/search/gp/axes.h"
#include "muster/tune/search/searcher.h"

namespace muster::tune {

// Note [Stopped trials in a Gaussian process]
// A trial that was stopped or paused at step t is a row with the score it had there, and each row
// has one more column, its depth: log(1 + t) / log(1 + T), T being the deepest step so far, and 1
// for a trial that ended by itself. Suggestions are asked for at depth 1. So the kernel's length
// along that column, which is fitted as all others, says how much an early score tells of a late
// one. While nothing was stopped the column is left out, and the model is Optuna's.

struct GpRow {
  enum Kind {
    kScore,
    kWorst,      ///< failed, or no number: its score is NaN and counts as the worst of all
    kInfeasible  ///< ran out of memory: no score, but a place that is not to be tried
  } kind = kScore;
  std::vector<double> columns;
  double score = 0;     ///< may be infinite
  int64_t step = 0;     ///< of the score; 0: unknown
  bool whole = true;    ///< the trial ended by itself
  bool is_last = true;  ///< of its trial, which is over
};

/// Follows a searcher's reported, paused, suggested and told. Rows are only ever added.
class GpRows {
 public:
  GpRows(const GpAxes& axes, bool failed_are_worst)
      : axes_(axes), failed_are_worst_(failed_are_worst) {}

  void suggested(int64_t number, const Point& point);
  void reported(int64_t number, int64_t t, double score);
  void paused(int64_t number);
  void told(const FinishedTrial& trial);
  void forget(int64_t number) { started_.erase(number); }  ///< in place of told(): it says nothing

  const std::vector<GpRow>& rows() const { return rows_; }
  bool has_stopped() const { return has_stopped_; }
  bool has_infeasible() const { return has_infeasible_; }
  int64_t deepest() const { return deepest_; }  ///< the largest step of a row, 1 at least

  /// Columns of the trials under way, in the order in which they started.
  std::vector<std::vector<double>> running() const;

 private:
  struct Started {
    Point point;
    int64_t step = 0;
    double score = 0;
    bool is_paused = false;
    int64_t row_step = -1;  // of the row that a pause left
  };
  void add(GpRow row);

  const GpAxes& axes_;
  bool failed_are_worst_;
  std::vector<GpRow> rows_;
  std::map<int64_t, Started> started_;
  bool has_stopped_ = false, has_infeasible_ = false;
  int64_t deepest_ = 1;
};

/// Log(1 + t) / log(1 + deepest), 1 for whole rows.
double depth_of(const GpRow& row, int64_t deepest);

/// Scores of rows as targets: infinite ones as the extremes of the finite, NaN as the least, then mean 0 and deviation 1 (0 if all are equal).
std::vector<double> standardized(std::vector<double> scores);

/// Finite scores of which those below the median count by their rank alone: they are where a normal
/// distribution has that share, whose upper half is as wide as that of the scores. So a few
/// terrible ones leave room to tell good ones apart. After Song and others 2024, "The Vizier
/// Gaussian process bandit algorithm" (arXiv 2408.11527), half-rank warping.
std::vector<double> half_ranked(std::vector<double> scores);

}  // namespace muster::tune
