// A quantile of numbers that come one by one.
#pragma once

#include <cstddef>
#include <vector>

namespace muster::tune {

/// The quantile at `share` of all numbers so far, between two of them by linear interpolation: bit
/// for bit what numpy.percentile gives (its default, the 7th method of Hyndman & Fan 1996). Two
/// heaps meet at the quantile, so that add() costs O(log n), value() O(1) and a number 8 bytes.
class RunningQuantile {
 public:
  /// `share` in [0, 1]: 0 the least number, 1 the greatest.
  explicit RunningQuantile(double share) : share_(share) {}

  /// Any number but NaN.
  void add(double number);

  size_t size() const { return low_.size() + high_.size(); }

  /// NaN if there is no number. Infinities among the two neighbours may also make it NaN, as in
  /// numpy.
  double value() const;

  /// What numpy.median gives where `share` is a half: the middle number, or (a + b) / 2 of the two.
  double median() const;

 private:
  double share_;
  std::vector<double> low_;   // a heap with its greatest in front: the quantile's lower neighbour
  std::vector<double> high_;  // a heap with its least in front: the upper one
};

}  // namespace muster::tune
