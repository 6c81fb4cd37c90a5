// Uphill in a box, a step at a time, so that many searches ask for their values together.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <vector>

namespace muster::tune {

struct AscentOptions {
  int max_steps = 200;
  int max_halvings = 20;       ///< of one step
  size_t memory = 10;          ///< steps that the direction is made of
  double least_slope = 1e-2;   ///< the end: no coordinate that can move has more
  double least_gain = 2.2e-9;  ///< the end: a step gains less, relative to the value
};

/// L-BFGS with projection: coordinates at a bound whose slope leads outside are left out of the
/// direction (Nocedal, Wright 2006, algorithm 7.4, over the others), the step is cut to the box and
/// halved until the gain is in proportion to the slope (Armijo). NLopt's calls back for one value
/// at a time; a Gaussian process gives ten at little more than the cost of one.
class BoxAscent {
 public:
  BoxAscent(std::vector<double> start,
            std::vector<double> low,
            std::vector<double> high,
            const AscentOptions& options = {});

  /// Where tell() is to be told the value of; not when done.
  std::span<const double> point() const { return trial_; }
  void tell(double value, std::span<const double> gradient);
  bool done() const { return done_; }

  std::span<const double> best() const { return x_; }
  double value() const { return value_; }  ///< at best(); -inf before the first tell()

 private:
  struct Pair {
    std::vector<double> step, change;  // of the gradient, uphill as negative curvature
    double product;
  };

  void accept(double value, std::span<const double> gradient);
  void choose_direction();
  void propose();
  bool is_free(size_t i) const;
  double free_slope() const;

  std::vector<double> x_, low_, high_, gradient_, direction_, trial_;
  AscentOptions options_;
  std::deque<Pair> pairs_;
  double value_, length_ = 1;
  int steps_ = 0, halvings_ = 0;
  bool started_ = false, done_ = false;
};

}  // namespace muster::tune
