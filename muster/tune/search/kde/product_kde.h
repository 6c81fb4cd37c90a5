// Densities of good and of bad trials, as BOHB has them: products of kernels over the parameters.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "muster/tune/search/draw_stream.h"

namespace muster::tune {

/// One column: numbers of [0, 1], or with `levels` > 0 one of the categories 0 … levels - 1.
struct KdeAxis {
  size_t levels = 0;
};

/// Rows of points [n, d], by columns. NaN: the parameter does not apply.
using KdeColumns = std::vector<std::vector<double>>;

/// Where imputed() gets its random numbers from.
struct KdeDraws {
  std::function<size_t(size_t count)> index;  ///< one of 0 … count - 1
  std::function<double()> uniform;            ///< of [0, 1)
};

/// Each NaN replaced: a row's first one and the others behind it by what a random row has there
/// that has the first one's parameter, by a random value where no row has it. Source: hpbandster
/// 0.7.4, impute_conditional_data (which leaves a NaN of the first column alone, if it is the row's
/// only one).
KdeColumns imputed(const KdeColumns& columns, std::span<const KdeAxis> axes, const KdeDraws& draws);

/// A density from n points without NaN. Gaussian kernels; for categories those of Aitchison and
/// Aitken (1 - h for the same one, h / (levels - 1) for each other). Bandwidths h by the rule of
/// thumb 1.06 sd n^(-1 / (4 + d)), not below `least`. Source: statsmodels 0.15, KDEMultivariate
/// with "normal_reference", with two mends: the levels are all that the category has, not those
/// that occur (one that occurs alone would divide by zero), and a category's h is at most
/// (levels - 1) / levels, where all are equally likely (beyond, the density would turn negative).
class ProductKde {
 public:
  ProductKde(KdeColumns columns, std::vector<KdeAxis> axes, double least_bandwidth);

  size_t rows() const { return columns_.empty() ? 0 : columns_[0].size(); }
  double at(size_t row, size_t column) const { return columns_[column][row]; }
  std::span<const double> bandwidths() const { return bandwidths_; }  ///< [d]
  std::span<const KdeAxis> axes() const { return axes_; }

  /// At a point [d] without NaN. Terms below 1e-60 are left out. Once `enough` is reached, what
  /// has been summed up by then.
  double density(std::span<const double> x,
                 double enough = std::numeric_limits<double>::infinity()) const;

 private:
  double part_of_density(std::span<const double> x, size_t first, size_t end) const;

  KdeColumns columns_;
  std::vector<KdeAxis> axes_;
  std::vector<double> bandwidths_;
  double log_norm_ = 0;  // n, the product of the Gaussians' h, and sqrt(2 pi) each
};

/// What BOHB chooses by.
struct KdeModel {
  ProductKde good, bad;

  /// Smaller is more promising: bad density / good density, each at least 1e-32. Of a point that is
  /// not below `least` not more than that, which takes less time: the bad density is not summed up
  /// to its end.
  double acquisition(std::span<const double> x,
                     double least = std::numeric_limits<double>::infinity()) const;

  /// A point near a random good one: numbers by normal distributions cut at 0 and 1, with `widen`
  /// times the bandwidth; categories kept with probability 1 - h, else any. `fixed` [d] keeps its
  /// numbers (NaN: open).
  std::vector<double> candidate(DrawStream& draws,
                                double widen,
                                std::span<const double> fixed) const;
};

}  // namespace muster::tune
