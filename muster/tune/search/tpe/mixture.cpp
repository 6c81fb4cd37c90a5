// Note [Vectors]
// Loops here are written so that a compiler makes vectors of them (-O3, no traps, no errno): trip
// counts are constants, branches are choices between two results, and exp, log and erfc are short
// polynomials in place of calls. The same bodies are compiled for AVX-512, AVX2 and any CPU; which
// one runs is asked once. Every number goes the same way whatever its place in the vector, so that
// results do not hang on where a kernel is stored.
#include "muster/tune/search/tpe/mixture.h"

#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#define MUSTER_INLINE [[gnu::always_inline]] inline

namespace muster::tune {
namespace {

constexpr size_t kCandidates = 24;  // at once: their sums fit into the first cache
constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();
constexpr double kRounder = 0x1.8p52;  // added and taken away again, it leaves a whole number
constexpr double kLog2E = 1.4426950408889634074;
constexpr double kLn2High = 0x1.62e42fee00000p-1, kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kLogSqrt2Pi = 0.91893853320467274178;

/// e^x for x <= 0 to 1e-15 of it; 0 below -700.
MUSTER_INLINE double exp_of_negative(double x) {
  const double inside = x > -700 ? x : -700;
  const double rounded = inside * kLog2E + kRounder;
  const double k = rounded - kRounder;
  const double r = (inside - k * kLn2High) - k * kLn2Low;
  // Taylor's polynomial; |r| <= ln 2 / 2.
  double p = 1. / 6227020800;
  p = p * r + 1. / 479001600;
  p = p * r + 1. / 39916800;
  p = p * r + 1. / 3628800;
  p = p * r + 1. / 362880;
  p = p * r + 1. / 40320;
  p = p * r + 1. / 5040;
  p = p * r + 1. / 720;
  p = p * r + 1. / 120;
  p = p * r + 1. / 24;
  p = p * r + 1. / 6;
  p = p * r + 0.5;
  p = p * r + 1;
  p = p * r + 1;
  const double scale = std::bit_cast<double>((std::bit_cast<uint64_t>(rounded) + 1023) << 52);
  return x > -700 ? p * scale : 0;
}

/// log x for normal positive x, to 1e-15 of it or of 1.
MUSTER_INLINE double log_of(double x) {
  constexpr uint64_t kSqrtHalfBits = 0x3FE6A09E667F3BCD;
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  const uint64_t shifted = bits - kSqrtHalfBits + (uint64_t{1024} << 52);
  const uint64_t exponent = shifted >> 52;                                   // + 1024
  const double m = std::bit_cast<double>(bits - ((exponent - 1024) << 52));  // in [√½, √2)
  const double k = std::bit_cast<double>(exponent | uint64_t{0x4330000000000000}) - (0x1p52 + 1024);
  const double s = (m - 1) / (m + 1), s2 = s * s;
  double p = 2. / 21;
  p = p * s2 + 2. / 19;
  p = p * s2 + 2. / 17;
  p = p * s2 + 2. / 15;
  p = p * s2 + 2. / 13;
  p = p * s2 + 2. / 11;
  p = p * s2 + 2. / 9;
  p = p * s2 + 2. / 7;
  p = p * s2 + 2. / 5;
  p = p * s2 + 2. / 3;
  return k * kLn2High + (k * kLn2Low + (s * s2 * p + 2 * s));
}

constexpr double kTailSeries[] = {
    6.765591279101545e-10,   1.2352111958342877e-09, -6.650333912671728e-09,
    -1.5144619407330894e-08, 3.5538668400384134e-08, 1.1051951506429667e-07,
    -1.5311093150866635e-07, -6.78989702157632e-07,  7.243955486299501e-07,
    4.0348011813647085e-06,  -4.962864371611162e-06, -2.37583270762092e-05,
    4.8448216133453746e-05,  0.00011821945180873573, -0.0005237304916327524,
    7.229457603662084e-05,   0.0042280034110874845,  -0.015252628115267992,
    0.02973036681582202,     -0.03240194125532685,   -0.0008168300955121961,
    0.08644697817762256,     -0.21350807151989096,   0.7801912073917633};

template <size_t... Term>
MUSTER_INLINE double tail_series(double t, std::index_sequence<Term...>) {
  double p = 0;
  ((p = p * t + kTailSeries[Term]), ...);
  return p;
}

/// 2 e^(z²/2) Φ(-z) for z >= 0 to 4e-16 of it. A polynomial in (z - 4.5) / (z + 4.5) for
/// (1 + 0.8 z) times that, from its Chebyshev series to 60 digits. After Shepherd and Laframboise
/// 1981, "Chebyshev approximation of (1 + 2x) exp(x²) erfc x in 0 <= x < ∞".
MUSTER_INLINE double scaled_tail(double z) {
  const double t = (z - 4.5) / (z + 4.5);
  return tail_series(t, std::make_index_sequence<std::size(kTailSeries)>()) / (1 + 0.8 * z);
}

/// What the mass of a narrow step around m is beside φ(m) w, where the difference of two tails would
/// lose its digits: 1 + He2(m) w²/24 + He4(m) w⁴/1920 + He6(m) w⁶/322560.
MUSTER_INLINE double narrow_series(double m2, double w2) {
  return 1 + w2 / 24 * (m2 - 1) + w2 * w2 / 1920 * ((m2 - 6) * m2 + 3) +
         w2 * w2 * w2 / 322560 * (((m2 - 15) * m2 + 45) * m2 - 15);
}
constexpr double kNarrow = 1e-3;

/// log(Φ(right) - Φ(left)), left < right.
MUSTER_INLINE double log_mass(double left, double right) {
  const double width = right - left;
  // By symmetry, the middle is on the right.
  const bool is_left = left + right < 0;
  const double from = is_left ? -right : left, to = is_left ? -left : right;
  const bool is_astride = from < 0;
  const double near = is_astride ? -from : from;
  const double near_half_square = 0.5 * near * near;
  const double far_half_square = 0.5 * to * to;
  const double apart = 0.5 * (near - to) * (near + to);  // digits that the squares would lose
  const double near_tail =
      0.5 * scaled_tail(near) * (is_astride ? exp_of_negative(-near_half_square) : 1);
  const double far_tail =
      0.5 * scaled_tail(to) * exp_of_negative(is_astride ? -far_half_square : apart);
  const double share = is_astride ? 1 - near_tail - far_tail : near_tail - far_tail;
  const bool is_narrow = width < kNarrow;
  const double middle = 0.5 * (from + to);
  const double factor = is_narrow ? width * narrow_series(middle * middle, width * width) : share;
  const double exponent = is_narrow    ? -0.5 * middle * middle - kLogSqrt2Pi
                          : is_astride ? 0
                                       : -near_half_square;
  return exponent + log_of(factor > 1e-300 ? factor : 1e-300);
}

/// Adds up in lanes, always in the same order.
MUSTER_INLINE double sum_of(const double* numbers) {
  double lanes[kMixtureLanes] = {};
  for (size_t i = 0; i < kMixtureBlock; i += kMixtureLanes)
    for (size_t lane = 0; lane < kMixtureLanes; ++lane) lanes[lane] += numbers[i + lane];
  return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) +
         ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

MUSTER_INLINE double most_of(const double* numbers) {
  double lanes[kMixtureLanes];
  for (size_t lane = 0; lane < kMixtureLanes; ++lane) lanes[lane] = numbers[lane];
  for (size_t i = kMixtureLanes; i < kMixtureBlock; i += kMixtureLanes)
    for (size_t lane = 0; lane < kMixtureLanes; ++lane)
      lanes[lane] = numbers[i + lane] > lanes[lane] ? numbers[i + lane] : lanes[lane];
  double most = lanes[0];
  for (const double lane : lanes) most = lane > most ? lane : most;
  return most;
}

/// The logarithms of a block of kernels at `count` candidates from `first` on.
MUSTER_INLINE void log_kernels(const Mixture& mixture,
                               size_t kernel,
                               size_t first,
                               size_t count,
                               double (*logs)[kMixtureBlock]) {
  const double* offset = mixture.offset + kernel;
  for (size_t c = 0; c < count; ++c)
    for (size_t i = 0; i < kMixtureBlock; ++i) logs[c][i] = offset[i];
  for (size_t c = 0; c < count && mixture.more != nullptr; ++c) {
    const double* more = mixture.more + (first + c) * mixture.kernels + kernel;
    for (size_t i = 0; i < kMixtureBlock; ++i) logs[c][i] += more[i];
  }
  for (const Mixture::Continuous& axis : mixture.continuous) {
    const double *centre = axis.centre + kernel, *scale = axis.scale + kernel;
    for (size_t c = 0; c < count; ++c) {
      const double x = axis.x[first + c];
      double* log = logs[c];
      for (size_t i = 0; i < kMixtureBlock; ++i) {
        const double z = (x - centre[i]) * scale[i];
        log[i] -= z * z;
      }
    }
  }
  for (const Mixture::Category& axis : mixture.categories) {
    const int32_t* own = axis.own + kernel;
    const double bonus = axis.bonus;
    for (size_t c = 0; c < count; ++c) {
      const int32_t x = axis.x[first + c];
      double* log = logs[c];
      for (size_t i = 0; i < kMixtureBlock; ++i) log[i] += own[i] == x ? bonus : 0.0;
    }
  }
}

MUSTER_INLINE void log_mixture_body(const Mixture& mixture, double* out) {
  alignas(64) double logs[kCandidates][kMixtureBlock];
  for (size_t first = 0; first < mixture.candidates; first += kCandidates) {
    const size_t rest = mixture.candidates - first;
    const size_t count = rest < kCandidates ? rest : kCandidates;
    double most[kCandidates], sum[kCandidates];
    for (size_t c = 0; c < count; ++c) most[c] = kMinusInfinity, sum[c] = 0;
    for (size_t kernel = 0; kernel < mixture.kernels; kernel += kMixtureBlock) {
      log_kernels(mixture, kernel, first, count, logs);
      for (size_t c = 0; c < count; ++c) {
        const double here = most_of(logs[c]);
        if (here == kMinusInfinity) continue;
        if (here > most[c]) sum[c] *= std::exp(most[c] - here), most[c] = here;
        const double top = most[c];
        double* terms = logs[c];
        const double* weight = mixture.weight + kernel;
        for (size_t i = 0; i < kMixtureBlock; ++i)
          terms[i] = weight[i] * exp_of_negative(terms[i] - top);
        sum[c] += sum_of(terms);
      }
    }
    for (size_t c = 0; c < count; ++c)
      out[first + c] = sum[c] > 0 ? std::log(sum[c]) + most[c] : kMinusInfinity;
  }
}

MUSTER_INLINE void log_masses_body(double left,
                                   double right,
                                   const double* centre,
                                   const double* inverse_width,
                                   size_t count,
                                   double* out) {
  const double step = right - left;
  double steepest[kMixtureLanes] = {};
  for (size_t i = 0; i < count; i += kMixtureLanes)
    for (size_t lane = 0; lane < kMixtureLanes; ++lane)
      steepest[lane] =
          inverse_width[i + lane] > steepest[lane] ? inverse_width[i + lane] : steepest[lane];
  bool all_narrow = true;
  for (const double inverse : steepest) all_narrow = all_narrow && step * inverse < kNarrow;
  if (all_narrow) {  // as one of many whole numbers is
    const double middle = left + 0.5 * step;
    for (size_t i = 0; i < count; ++i) {
      const double m = (middle - centre[i]) * inverse_width[i], w = step * inverse_width[i];
      out[i] = -0.5 * m * m - kLogSqrt2Pi + log_of(w * narrow_series(m * m, w * w));
    }
  } else {
    for (size_t i = 0; i < count; ++i)
      out[i] =
          log_mass((left - centre[i]) * inverse_width[i], (right - centre[i]) * inverse_width[i]);
  }
}

struct Loops {
  void (*log_mixture)(const Mixture&, double*);
  void (*log_masses)(double, double, const double*, const double*, size_t, double*);
};

void log_mixture_plain(const Mixture& mixture, double* out) { log_mixture_body(mixture, out); }
void log_masses_plain(
    double left, double right, const double* centre, const double* inverse, size_t n, double* out) {
  log_masses_body(left, right, centre, inverse, n, out);
}

#if defined(__x86_64__)
#define MUSTER_AVX2 [[gnu::target("avx2,fma")]]
#define MUSTER_AVX512 [[gnu::target("avx512f,avx512dq,avx512vl,fma")]]
MUSTER_AVX2 void log_mixture_avx2(const Mixture& mixture, double* out) {
  log_mixture_body(mixture, out);
}
MUSTER_AVX2 void log_masses_avx2(
    double left, double right, const double* centre, const double* inverse, size_t n, double* out) {
  log_masses_body(left, right, centre, inverse, n, out);
}
MUSTER_AVX512 void log_mixture_avx512(const Mixture& mixture, double* out) {
  log_mixture_body(mixture, out);
}
MUSTER_AVX512 void log_masses_avx512(
    double left, double right, const double* centre, const double* inverse, size_t n, double* out) {
  log_masses_body(left, right, centre, inverse, n, out);
}
#endif

Loops best_loops() {
#if defined(__x86_64__)
  const bool has_fma = __builtin_cpu_supports("fma");
  if (has_fma && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    return {log_mixture_avx512, log_masses_avx512};
  if (has_fma && __builtin_cpu_supports("avx2")) return {log_mixture_avx2, log_masses_avx2};
#endif
  return {log_mixture_plain, log_masses_plain};
}

const Loops& loops() {
  static const Loops best = best_loops();
  return best;
}

}  // namespace

void log_mixture(const Mixture& mixture, double* out) { loops().log_mixture(mixture, out); }

void log_masses(double left,
                double right,
                const double* centre,
                const double* inverse_width,
                size_t count,
                double* out) {
  loops().log_masses(left, right, centre, inverse_width, count, out);
}

}  // namespace muster::tune
