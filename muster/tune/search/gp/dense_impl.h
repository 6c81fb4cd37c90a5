// The functions of DenseMath, for dense_baseline.cpp and dense_avx2.cpp, in the namespace
// MUSTER_DENSE_BUILD; see Note [Two builds of one arithmetic]. No guard: each includes it once.
#include <Eigen/Cholesky>
#include <Eigen/Core>

#include "muster/tune/search/gp/dense.h"

namespace muster::tune::MUSTER_DENSE_BUILD {

using Index = Eigen::Index;
using Array = Eigen::ArrayXd;
using MatrixMap = Eigen::Map<Eigen::MatrixXd, 0, Eigen::OuterStride<>>;
using ConstMatrixMap = Eigen::Map<const Eigen::MatrixXd, 0, Eigen::OuterStride<>>;
using ConstArrayMap = Eigen::Map<const Array>;

constexpr Index kBlock = 96;  // rows of a panel: three of them in the first cache

inline Index ix(size_t n) { return static_cast<Index>(n); }
inline MatrixMap matrix(double* data, size_t rows, size_t columns, size_t leading) {
  return {data, ix(rows), ix(columns), Eigen::OuterStride<>(ix(leading))};
}
inline ConstMatrixMap matrix(const double* data, size_t rows, size_t columns, size_t leading) {
  return {data, ix(rows), ix(columns), Eigen::OuterStride<>(ix(leading))};
}

/// Coordinate k of points `from` to the end.
inline ConstArrayMap coordinate(const DensePoints& points, size_t k, size_t from = 0) {
  return {points.data + k * points.stride + from, ix(points.count - from)};
}

void covariance(const DenseKernel& kernel,
                const DensePoints& a,
                const DensePoints& b,
                bool lower,
                double* values,
                double* slopes,
                size_t leading) {
  Array squares(ix(a.count)), roots(ix(a.count)), decays(ix(a.count));
  for (size_t j = 0; j < b.count; ++j) {
    const size_t from = lower ? j : 0;
    const Index rows = ix(a.count - from);
    auto square = squares.head(rows);
    auto root = roots.head(rows);
    auto decay = decays.head(rows);
    square.setZero();
    for (size_t k = 0; k < kernel.axes; ++k) {
      const auto apart = coordinate(a, k, from) - b.data[k * b.stride + j];
      if (kernel.hamming[k] != 0)
        square += kernel.weights[k] * apart.square().min(1.0);
      else
        square += kernel.weights[k] * apart.square();
    }
    root = (5.0 * square).sqrt();
    decay = (-root).exp();
    Eigen::Map<Array>(values + j * leading + from, rows) =
        kernel.scale * ((5.0 / 3.0) * square + root + 1.0) * decay;
    if (slopes != nullptr) {
      Eigen::Map<Array>(slopes + j * leading + from, rows) =
          (-5.0 / 6.0 * kernel.scale) * (root + 1.0) * decay;
    }
  }
}

/// A lower triangle becomes its inverse: of the halves A, C on the diagonal and B below, the lower
/// left becomes -C^-1 B A^-1.
void invert_triangle(MatrixMap l) {  // NOLINT(misc-no-recursion)
  const Index n = l.rows(), half = n / 2, rest = n - half, stride = l.outerStride();
  if (n <= 32) {
    for (Index j = 0; j < n; ++j) {
      l(j, j) = 1 / l(j, j);
      for (Index i = j + 1; i < n; ++i)
        l(i, j) = -l.row(i).segment(j, i - j).dot(l.col(j).segment(j, i - j)) / l(i, i);
    }
    return;
  }
  MatrixMap a(l.data(), half, half, Eigen::OuterStride<>(stride));
  MatrixMap c(l.data() + half * stride + half, rest, rest, Eigen::OuterStride<>(stride));
  auto b = l.bottomLeftCorner(rest, half);
  invert_triangle(a);
  c.triangularView<Eigen::Lower>().solveInPlace(b);
  b = (-(b * a.triangularView<Eigen::Lower>())).eval();
  invert_triangle(c);
}

bool invert_cholesky(double* data, size_t n, size_t leading, double* half_log_determinant) {
  MatrixMap m = matrix(data, n, n, leading);
  Eigen::LLT<Eigen::Ref<Eigen::MatrixXd, 0, Eigen::OuterStride<>>, Eigen::Lower> factor(m);
  if (factor.info() != Eigen::Success || !m.diagonal().allFinite()) return false;
  *half_log_determinant = m.diagonal().array().log().sum();
  m.triangularView<Eigen::StrictlyUpper>().setZero();
  invert_triangle(m);
  return true;
}

void gram(const double* lower, size_t n, size_t leading, double* data, size_t out_leading) {
  const ConstMatrixMap l = matrix(lower, n, n, leading);
  MatrixMap out = matrix(data, n, n, out_leading);
  out.triangularView<Eigen::Lower>().setZero();
  for (Index from = 0; from < ix(n); from += kBlock) {
    const Index rows = std::min(kBlock, ix(n) - from), columns = from + rows;
    // Rows of a lower triangle end at the diagonal.
    out.topLeftCorner(columns, columns)
        .selfadjointView<Eigen::Lower>()
        .rankUpdate(l.block(from, 0, rows, columns).transpose());
  }
}

void multiply(const double* lower,
              size_t n,
              size_t leading,
              bool transposed,
              const double* in,
              double* out,
              size_t columns,
              size_t in_leading) {
  const ConstMatrixMap l = matrix(lower, n, n, leading);
  const ConstMatrixMap x = matrix(in, n, columns, in_leading);
  MatrixMap y = matrix(out, n, columns, in_leading);
  if (transposed)
    y.noalias() = l.transpose().triangularView<Eigen::Upper>() * x;
  else
    y.noalias() = l.triangularView<Eigen::Lower>() * x;
}

void column_products(const double* a, const double* b, size_t n, size_t columns, double* sums) {
  for (size_t j = 0; j < columns; ++j)
    sums[j] = (ConstArrayMap(a + j * n, ix(n)) * ConstArrayMap(b + j * n, ix(n))).sum();
}

void accumulate(double factor, const double* in, double* out, size_t n) {
  Eigen::Map<Array>(out, ix(n)) += factor * ConstArrayMap(in, ix(n));
}

void weigh_distances(
    const DenseKernel& kernel, const DensePoints& a, const double* m, size_t leading, double* out) {
  for (size_t k = 0; k < kernel.axes; ++k) out[k] = 0;
  for (size_t j = 0; j + 1 < a.count; ++j) {
    const ConstArrayMap column(m + j * leading + j + 1, ix(a.count - j - 1));
    for (size_t k = 0; k < kernel.axes; ++k) {
      const auto apart = coordinate(a, k, j + 1) - a.data[k * a.stride + j];
      out[k] += kernel.hamming[k] != 0 ? (column * apart.square().min(1.0)).sum()
                                       : (column * apart.square()).sum();
    }
  }
}

void weigh_differences(const DenseKernel& kernel,
                       const DensePoints& a,
                       const double* x,
                       const double* h,
                       double* out) {
  const ConstArrayMap weights(h, ix(a.count));
  for (size_t k = 0; k < kernel.axes; ++k)
    out[k] = kernel.hamming[k] != 0 ? 0 : 2 * (weights * (x[k] - coordinate(a, k))).sum();
}

constexpr DenseMath kMath{&covariance,
                          &invert_cholesky,
                          &gram,
                          &multiply,
                          &column_products,
                          &accumulate,
                          &weigh_distances,
                          &weigh_differences};

}  // namespace muster::tune::MUSTER_DENSE_BUILD
