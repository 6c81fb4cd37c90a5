// A Gaussian process at fixed hyperparameters: what is known of a function from values at points.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "muster/tune/search/gp/dense.h"

namespace muster::tune {

/// Points of one number of axes, to which points can be added.
class PointSet {
 public:
  explicit PointSet(size_t axes = 0, size_t capacity = 0);
  size_t axes() const { return axes_; }
  size_t size() const { return count_; }
  void append(std::span<const double> point);
  void truncate(size_t count) { count_ = count; }
  double at(size_t i, size_t axis) const { return data_[axis * stride_ + i]; }
  double& at(size_t i, size_t axis) { return data_[axis * stride_ + i]; }
  std::vector<double> point(size_t i) const;
  DensePoints dense() const { return {data_.data(), count_, stride_}; }
  DensePoints dense(size_t from, size_t count) const {
    return {data_.data() + from, count, stride_};
  }

 private:
  size_t axes_, count_ = 0, stride_;
  DenseVector data_;  // [axes, stride]
};

/// Hyperparameters of a Gaussian process with the kernel of DenseKernel.
struct GpHyper {
  std::vector<double> weights;  ///< inverse squared length scales
  double scale = 1;
  double noise = 1;  ///< variance of a value around the function
};

/// Rasmussen, Williams 2006, algorithm 2.1, but with L^-1 instead of L, so that a point more is one
/// row more, and many points are asked at once. Rows that follow those of the targets say where
/// values will come: they lower the variance and leave the mean.
class GpPosterior {
 public:
  /// `hamming` as in DenseKernel; the first weights.size() axes of points count.
  GpPosterior(std::vector<uint8_t> hamming, GpHyper hyper);

  /// Starts with these points. Where rounding left the matrix not positive definite, the smallest
  /// of 1e-10, 1e-9, … 0.1 times the scale that mends it is added to the diagonal.
  void assign(const PointSet& points);

  /// One point more, with a value that has the noise of all, or `noise`. O(n^2).
  void append(std::span<const double> point) { append(point, hyper_.noise); }
  void append(std::span<const double> point, double noise);

  /// As before the points from `rows` on came.
  void truncate(size_t rows);

  /// The values of the first points; may be called again after more points came.
  void set_targets(std::span<const double> targets);

  /// Points `from` to from + count - 1 of `points`, one column each.
  struct Answer {
    size_t rows = 0, count = 0;
    DenseVector mean, variance;  ///< [count]; the variance is not negative
    DenseVector whitened;        ///< [rows, count]: w = L^-1 k, variance = scale - w^T w
    DenseVector slopes;          ///< [rows, count], if asked for: of DenseMath::covariance
  };
  void ask(const PointSet& points, size_t from, size_t count, bool slopes, Answer& out) const;

  /// For one column of an answer with slopes, the gradient by the point of
  /// c mean + sum_i t[i] w[i]: as much of it as one axis has weight. t [rows, count],
  /// out [count, axes], zero for categories.
  void gradients(const PointSet& points,
                 size_t from,
                 const Answer& answer,
                 std::span<const double> c,
                 const DenseVector& t,
                 std::span<double> out) const;

  size_t rows() const { return points_.size(); }
  const GpHyper& hyper() const { return hyper_; }
  const PointSet& points() const { return points_; }
  DenseKernel kernel() const;

 private:
  void reserve(size_t rows);

  std::vector<uint8_t> hamming_;
  GpHyper hyper_;
  PointSet points_;
  size_t leading_ = 0;
  DenseVector inverse_;  // L^-1, lower, [leading_, leading_]
  DenseVector alpha_;    // (K + noise)^-1 targets, 0 for rows without one
};

}  // namespace muster::tune
