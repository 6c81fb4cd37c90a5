// The dense arithmetic of Gaussian processes: kernel matrices and triangular products.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

namespace muster::tune {

// Note [Two builds of one arithmetic]
// What costs time in a Gaussian process are products of n by n matrices and n^2 exponentials. Eigen
// does them well, but for the processor it is compiled for, and Muster is compiled for any x86-64.
// So dense_impl.h is compiled twice, in dense_baseline.cpp and, with AVX2 and FMA, in
// dense_avx2.cpp, where a macro renames the namespace Eigen (a linker keeps one copy of a template,
// of whichever build), and dense_math() picks what the processor can run. One thread; the same
// machine gives the same bits. Other files see no Eigen.
// All matrices are column by column.

/// Where a vector begins decides how a sum over it is cut into registers, and so its last bits: all
/// that DenseMath reads or writes begins at a cache line.
template <class T>
struct CacheLineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};
  CacheLineAllocator() = default;
  template <class U>
  CacheLineAllocator(const CacheLineAllocator<U>& /*other*/) {}
  T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kLine)); }
  void deallocate(T* p, size_t /*n*/) { ::operator delete(p, kLine); }
  friend bool operator==(const CacheLineAllocator&, const CacheLineAllocator&) { return true; }
};
using DenseVector = std::vector<double, CacheLineAllocator<double>>;

/// Points as columns of coordinates: coordinate k of point i is data[k * stride + i].
struct DensePoints {
  const double* data;
  size_t count;
  size_t stride;
};

/// k(x, y) = scale (1 + r + r^2 / 3) exp(-r), r^2 = 5 sum_k weights[k] d_k, d_k = (x_k - y_k)^2, or
/// 1 for two categories that differ where `hamming[k]` (categories are whole numbers). Matern 5/2
/// with ARD; Rasmussen, Williams 2006, eq. 4.17; weights are inverse squared length scales.
struct DenseKernel {
  const double* weights;
  const uint8_t* hamming;
  size_t axes;
  double scale;
};

struct DenseMath {
  /// values(i, j) = k(a_i, b_j); slopes(i, j), unless null, its derivative by sum_k weights[k] d_k.
  /// `lower`: a is b, and only i >= j is wanted.
  void (*covariance)(const DenseKernel& kernel,
                     const DensePoints& a,
                     const DensePoints& b,
                     bool lower,
                     double* values,
                     double* slopes,
                     size_t leading);

  /// The lower triangle of a positive definite matrix becomes the inverse of its Cholesky factor;
  /// what is above is set to zero. *half_log_determinant: of the matrix, over 2. False, and the
  /// matrix lost, unless it is positive definite.
  bool (*invert_cholesky)(double* matrix, size_t n, size_t leading, double* half_log_determinant);

  /// out = lower^T lower, its lower triangle.
  void (*gram)(const double* lower, size_t n, size_t leading, double* out, size_t out_leading);

  /// out [n, columns] = lower in, or lower^T in.
  void (*multiply)(const double* lower,
                   size_t n,
                   size_t leading,
                   bool transposed,
                   const double* in,
                   double* out,
                   size_t columns,
                   size_t in_leading);

  /// sums[j] = sum_i a(i, j) b(i, j), a and b [n, columns] without gaps.
  void (*column_products)(const double* a, const double* b, size_t n, size_t columns, double* sums);

  /// out += factor in.
  void (*accumulate)(double factor, const double* in, double* out, size_t n);

  /// out[k] = sum over i > j of m(i, j) d_k(a_i, a_j).
  void (*weigh_distances)(const DenseKernel& kernel,
                          const DensePoints& a,
                          const double* m,
                          size_t leading,
                          double* out);

  /// out[k] = 2 sum_i h[i] (x[k] - a_ik), for axes that are not hamming; 0 for the others.
  void (*weigh_differences)(const DenseKernel& kernel,
                            const DensePoints& a,
                            const double* x,
                            const double* h,
                            double* out);
};

extern const DenseMath kBaselineMath;
extern const DenseMath* const kAvx2Math;  ///< null where it is not compiled
bool can_run_avx2();

/// The fastest that this machine can run.
const DenseMath& dense_math();

}  // namespace muster::tune
