#include "muster/tune/search/gp/posterior.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/base/error.h"

namespace muster::tune {
namespace {

constexpr double kFirstJitter = 1e-10, kLastJitter = 0.1;
constexpr double kLeastPivot = 1e-14;  // of a row, in scales: twins without noise would have 0

}  // namespace

PointSet::PointSet(size_t axes, size_t capacity)
    : axes_(axes), stride_(capacity), data_(axes * capacity) {}

void PointSet::append(std::span<const double> point) {
  if (count_ == stride_) {
    const size_t stride = std::max<size_t>(16, 2 * stride_);
    DenseVector data(axes_ * stride);
    for (size_t k = 0; k < axes_; ++k)
      std::copy_n(data_.begin() + static_cast<ptrdiff_t>(k * stride_),
                  count_,
                  data.begin() + static_cast<ptrdiff_t>(k * stride));
    data_ = std::move(data);
    stride_ = stride;
  }
  for (size_t k = 0; k < axes_; ++k) data_[k * stride_ + count_] = point[k];
  ++count_;
}

std::vector<double> PointSet::point(size_t i) const {
  std::vector<double> out(axes_);
  for (size_t k = 0; k < axes_; ++k) out[k] = at(i, k);
  return out;
}

GpPosterior::GpPosterior(std::vector<uint8_t> hamming, GpHyper hyper)
    : hamming_(std::move(hamming)), hyper_(std::move(hyper)), points_(hamming_.size()) {}

DenseKernel GpPosterior::kernel() const {
  return {hyper_.weights.data(), hamming_.data(), hyper_.weights.size(), hyper_.scale};
}

void GpPosterior::reserve(size_t rows) {
  if (rows <= leading_) return;
  const size_t leading = std::max(rows + 32, leading_ + leading_ / 4);
  DenseVector inverse(leading * leading);
  for (size_t j = 0; j < points_.size(); ++j)
    std::copy_n(inverse_.begin() + static_cast<ptrdiff_t>(j * leading_),
                points_.size(),
                inverse.begin() + static_cast<ptrdiff_t>(j * leading));
  inverse_ = std::move(inverse);
  leading_ = leading;
}

void GpPosterior::assign(const PointSet& points) {
  points_ = PointSet(points.axes());
  reserve(points.size());
  points_ = points;
  alpha_.assign(points.size(), 0);
  const size_t n = points.size();
  if (n == 0) return;
  double ignored = 0;
  for (double jitter = 0; jitter <= kLastJitter * 1.5;
       jitter = std::max(kFirstJitter, jitter * 10)) {
    dense_math().covariance(
        kernel(), points_.dense(), points_.dense(), true, inverse_.data(), nullptr, leading_);
    for (size_t i = 0; i < n; ++i)
      inverse_[i * leading_ + i] += hyper_.noise + jitter * hyper_.scale;
    if (dense_math().invert_cholesky(inverse_.data(), n, leading_, &ignored)) return;
  }
  throw internal_error(
      {.refused = "a kernel matrix",
       .rule = "it is positive definite with a tenth of its scale on the diagonal"});
}

void GpPosterior::append(std::span<const double> point, double noise) {
  const size_t n = points_.size();
  PointSet added(points_.axes(), 1);
  added.append(point);
  Answer answer;
  ask(added, 0, 1, false, answer);
  const double left = answer.variance[0] + noise;
  const double pivot = std::sqrt(std::max(left, kLeastPivot * hyper_.scale));
  DenseVector row(n);
  if (n > 0) {
    dense_math().multiply(
        inverse_.data(), n, leading_, true, answer.whitened.data(), row.data(), 1, n);
  }
  reserve(n + 1);
  for (size_t j = 0; j < n; ++j) inverse_[j * leading_ + n] = -row[j] / pivot;
  std::fill_n(inverse_.begin() + static_cast<ptrdiff_t>(n * leading_), n, 0.0);
  inverse_[n * leading_ + n] = 1 / pivot;
  points_.append(point);
  alpha_.push_back(0);
}

void GpPosterior::truncate(size_t rows) {
  points_.truncate(rows);
  alpha_.resize(rows);
}

void GpPosterior::set_targets(std::span<const double> targets) {
  const size_t n = targets.size();
  if (n == 0) return;
  const DenseVector own(targets.begin(), targets.end());
  DenseVector whitened(n);
  std::ranges::fill(alpha_, 0);
  dense_math().multiply(inverse_.data(), n, leading_, false, own.data(), whitened.data(), 1, n);
  dense_math().multiply(inverse_.data(), n, leading_, true, whitened.data(), alpha_.data(), 1, n);
}

void GpPosterior::ask(
    const PointSet& points, size_t from, size_t count, bool slopes, Answer& out) const {
  const size_t n = points_.size();
  out.rows = n;
  out.count = count;
  out.mean.assign(count, 0);
  out.variance.assign(count, hyper_.scale);
  out.whitened.resize(n * count);
  out.slopes.resize(slopes ? n * count : 0);
  if (n == 0) return;
  DenseVector values(n * count);
  dense_math().covariance(kernel(),
                          points_.dense(),
                          points.dense(from, count),
                          false,
                          values.data(),
                          slopes ? out.slopes.data() : nullptr,
                          n);
  dense_math().multiply(
      inverse_.data(), n, leading_, false, values.data(), out.whitened.data(), count, n);
  DenseVector explained(count);
  const double* const w = out.whitened.data();
  dense_math().column_products(w, w, n, count, explained.data());
  for (size_t j = 0; j < count; ++j) {
    out.variance[j] = std::max(0.0, hyper_.scale - explained[j]);
    dense_math().column_products(values.data() + j * n, alpha_.data(), n, 1, &out.mean[j]);
  }
}

void GpPosterior::gradients(const PointSet& points,
                            size_t from,
                            const Answer& answer,
                            std::span<const double> c,
                            const DenseVector& t,
                            std::span<double> out) const {
  const size_t n = answer.rows, axes = points.axes();
  DenseVector h(n * answer.count);
  std::vector<double> x(axes), by_axis(axes);
  dense_math().multiply(inverse_.data(), n, leading_, true, t.data(), h.data(), answer.count, n);
  for (size_t j = 0; j < answer.count; ++j) {
    for (size_t i = 0; i < n; ++i)
      h[j * n + i] = (h[j * n + i] + c[j] * alpha_[i]) * answer.slopes[j * n + i];
    for (size_t k = 0; k < axes; ++k) x[k] = points.at(from + j, k);
    dense_math().weigh_differences(
        kernel(), points_.dense(), x.data(), h.data() + j * n, by_axis.data());
    for (size_t k = 0; k < axes; ++k)
      out[j * axes + k] = k < hyper_.weights.size() ? hyper_.weights[k] * by_axis[k] : 0;
  }
}

}  // namespace muster::tune
