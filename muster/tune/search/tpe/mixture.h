// The inner loops of TPE: densities of mixtures of product kernels at a few places.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::tune {

/// Kernels come in whole blocks of this many; those beyond the last one have offset -inf.
inline constexpr size_t kMixtureBlock = 128;
inline constexpr size_t kMixtureLanes = 8;

/// A mixture and the places (candidates) where it is wanted. Nothing is owned.
struct Mixture {
  /// exp(-((x - centre) * scale)²), with scale = 1 / (√2 σ).
  struct Continuous {
    const double* centre;  ///< [kernels]
    const double* scale;   ///< [kernels]
    const double* x;       ///< [candidates]
  };
  /// exp(bonus) where the category is the kernel's own, else 1.
  struct Category {
    const int32_t* own;  ///< [kernels]
    double bonus;
    const int32_t* x;  ///< [candidates]
  };
  size_t kernels = 0;    ///< a multiple of kMixtureBlock
  const double* weight;  ///< [kernels]
  const double* offset;  ///< [kernels] logarithms of what all x share; -inf: no kernel
  size_t candidates = 0;
  const double* more = nullptr;  ///< [candidates, kernels] exp(more) is a factor; or nothing
  std::vector<Continuous> continuous;
  std::vector<Category> categories;
};

/// out[c] = log Σ weight · exp(offset) · Π of the factors above at candidate c; -inf if that is 0.
/// Errors are below 1e-13 in the exponents that matter. What it does depends on the CPU's vectors
/// (AVX-512, AVX2 or none) only in the last digits.
void log_mixture(const Mixture& mixture, double* out);

/// out[k] = log of the mass that N(centre[k], (1 / inverse_width[k])²) has between left and right.
/// `count` is a multiple of kMixtureLanes; where inverse_width is 0, out is any number.
/// Relative errors are below 1e-12 wherever the mass is above 1e-300,
/// also for masses far out and for narrow ones.
void log_masses(double left,
                double right,
                const double* centre,
                const double* inverse_width,
                size_t count,
                double* out);

}  // namespace muster::tune
