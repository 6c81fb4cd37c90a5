// --lr find: a range test for the learning rate, its numbers without the training.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster::train {

// Note [Learning-rate search]
// Source: Smith 2017, "Cyclical Learning Rates for Training Neural Networks", section 3.3, by the
// rule of Lightning's Tuner.lr_find (mode exponential): step k = 0, 1, … is made with `min`, then
// with min * (max / min)^((k + 1) / steps); its loss is smoothed, avg <- 0.98 avg + 0.02 loss,
// divided by 1 - 0.98^(k + 2) (so Lightning; the curve therefore begins at half the loss); the search
// ends with a smoothed loss above `stop` times the least so far. The suggestion is where the smoothed
// loss falls most steeply from step to step, that is over the logarithm of the rate, the first 10
// steps and the last one left out. (Lightning's newest version divides by the rate's own increments,
// by which the tiny rates at the start would win.) A loss that is not finite ends the search.

struct LrSearchOptions {
  double min = 1e-8;
  double max = 1;
  int64_t steps = 100;
  double stop = 4;  ///< times the least smoothed loss
};

/// "find" or "find:min=1e-6,max=0.5,steps=200,stop=4". Throws a usage error.
LrSearchOptions parse_lr_search(const std::string& spec);

struct LrPoint {
  double lr = 0;
  double loss = 0;  ///< of the step, before its update
  double smoothed = 0;
};

/// One search, alike on all ranks if the losses are.
class LrSearch {
 public:
  explicit LrSearch(const LrSearchOptions& options) : options_(options) {}

  /// Of the next step.
  double lr() const;
  /// The loss of the step that was made with lr().
  void add(double loss);
  /// The step could not be made: its loss, or a gradient, was not finite.
  void diverged() { is_over_ = true; }
  bool is_over() const { return is_over_; }

  const std::vector<LrPoint>& points() const { return points_; }
  /// Which of the points; nothing if there are too few.
  std::optional<size_t> suggestion() const;

 private:
  LrSearchOptions options_;
  std::vector<LrPoint> points_;
  double average_ = 0;
  double least_ = 0;
  bool is_over_ = false;
};

/// What came of it.
struct LrFound {
  std::vector<LrPoint> points;
  size_t at = 0;      ///< of the suggestion
  bool falls = true;  ///< false: it may be chance; see found_lr()
  double lr() const { return points.at(at).lr; }
};

/// Throws a usage error if there is no suggestion. `falls` is false where the median of the next
/// twenty losses is not below the first ten by more than those scatter.
LrFound found_lr(const LrSearch& search);

}  // namespace muster::train
