// CMA-ES, with margin where axes are discrete: the distribution, and its update by a generation.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "muster/tune/search/draw_stream.h"

namespace muster::tune {

/// One axis of the search: low <= x <= high; with `step` > 0 it takes low, low + step, … <= high.
struct CmaAxis {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  double step = 0;
};

struct CmaStart {
  std::vector<double> mean;   ///< [n], n >= 1
  double sigma = 1;           ///< standard deviation at the start, above 0
  std::vector<CmaAxis> axes;  ///< [n]; discrete ones have finite bounds and at least two values
  int64_t population = 0;     ///< members of a generation, at least 2; 0: 4 + floor(3 ln n)
};

/// A point with its value, smaller is better. The value may be infinite, but no NaN.
struct CmaMember {
  std::vector<double> raw;  ///< [n], as Cma::sample drew it
  double value = 0;
};

/// Steps are those of cmaes 0.13.1 (CMA, and CMAwM where an axis is discrete) with its default
/// rates. Sources: Hansen 2016, "The CMA Evolution Strategy: A Tutorial", equations 41 to 56;
/// Hamano, Saito, Nomura, Shirakawa 2022, "CMA-ES with Margin", section 4. Copies are independent.
class Cma {
 public:
  /// Throws an internal error for a start against the rules above.
  explicit Cma(const CmaStart& start);

  int64_t population() const { return population_; }
  int64_t generation() const { return generation_; }
  double sigma() const { return sigma_; }
  std::span<const double> mean() const { return mean_; }              ///< [n]
  std::span<const double> covariance() const { return covariance_; }  ///< [n, n] C; sigma apart
  std::span<const double> stretch() const { return stretch_; }  ///< [n] A of the margin; else 1

  /// A draw [n] from the distribution, inside the bounds of what is continuous (drawn again up to
  /// 10 n times, then clipped).
  std::vector<double> sample(DrawStream& draws) const;

  /// What is tried for a raw point [n]: discrete axes on one of their values.
  std::vector<double> tried(std::vector<double> raw) const;

  /// For a point that was not drawn from the present distribution: nearer to the mean if it is
  /// farther away than a draw would be. Source: Hansen 2011, "Injecting external solutions into
  /// CMA-ES", section 2.
  std::vector<double> drawn_near(std::vector<double> raw) const;

  /// The next generation from all `population` members of this one; equal values rank as they come.
  void tell(std::vector<CmaMember> members);

  /// It has converged, diverged, or reached the end of what doubles can tell apart (cmaes's
  /// should_stop): a new start finds more.
  bool is_spent() const;

 private:
  struct Rates {
    std::vector<double> weights;  // [population], best first; the second half is negative
    double weight_sum = 0;
    size_t parents = 0;
    double mu_eff = 0, c_sigma = 0, d_sigma = 0, c_c = 0, c_1 = 0, c_mu = 0, chi = 0;
  };
  static Rates rates_of(size_t n, int64_t population);

  void decompose();
  void keep_margin();
  void keep_margin(size_t axis, double c_diagonal);
  // Of a discrete axis: value `index`, what lies between it and the next, the value nearest to x
  // (the lower one of two).
  double level(size_t axis, int64_t index) const;
  double limit(size_t axis, int64_t index) const;
  int64_t nearest(size_t axis, double x) const;
  bool is_inside(const std::vector<double>& x) const;
  std::vector<double> draw(DrawStream& draws) const;

  std::vector<CmaAxis> axes_;
  std::vector<int64_t> levels_;  // [n]; 0: continuous
  int64_t population_ = 0;
  Rates rates_;
  double margin_ = 0;
  double tolerance_x_ = 0;
  size_t history_length_ = 0;

  int64_t generation_ = 0;
  double sigma_ = 1;
  std::vector<double> mean_, path_sigma_, path_c_;  // [n]
  std::vector<double> covariance_, directions_;     // [n, n] C, and B with C = B D² B^T by columns
  std::vector<double> scales_;                      // [n] D
  std::vector<double> stretch_;
  std::vector<double> bests_, worsts_;  // of the last history_length_ generations, round and round
};

}  // namespace muster::tune
