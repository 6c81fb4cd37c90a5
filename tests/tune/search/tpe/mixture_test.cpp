// The vectorised loops against their formulas in long double.
#include "muster/tune/search/tpe/mixture.h"

#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "muster/tune/search/normal.h"
#include "muster/tune/search/tpe/normal.h"
#include "muster/tune/search/tpe/random_stream.h"

#include "tests/support/numbers.h"

namespace muster::tune {
namespace {

using test::kInf;

long double tail(long double z) { return std::erfc(z / std::sqrt(2.0L)) / 2; }

/// log(Φ(right) - Φ(left)) of the standard normal distribution, on the side where digits are kept.
double log_mass(long double left, long double right) {
  if (left + right < 0) std::swap(left, right), left = -left, right = -right;
  return static_cast<double>(std::log(tail(left) - tail(right)));
}

/// log_masses of one kernel.
double log_mass_of(double left, double right, double centre, double inverse_width) {
  const double centres[kMixtureLanes] = {0, 0, 0, centre};
  const double inverse_widths[kMixtureLanes] = {0, 0, 0, inverse_width};
  double out[kMixtureLanes];
  log_masses(left, right, centres, inverse_widths, kMixtureLanes, out);
  return out[3];
}

TEST(LogMasses, AreExactForWideNarrowAndFarSteps) {
  for (const double width : {1e-2, 0.1, 0.5, 1.0, 3.0, 20.0}) {
    for (double left = -24; left < 24; left += 0.37) {
      const double ours = log_mass_of(left, left + width, 0, 1);
      // tail() of long double has 19 digits, of which a narrow step leaves fewer.
      EXPECT_NEAR(ours, log_mass(left, left + width), 1e-12 * std::max(1.0, std::abs(ours)))
          << left << " + " << width;
    }
  }
}

TEST(LogMasses, OfVeryNarrowStepsAreTheDensityTimesTheWidth) {
  const double centre = 3, inverse = 2, log_sqrt_2_pi = 0.91893853320467274178;
  for (const double width : {1e-4, 1e-6, 1e-9}) {
    for (double x = -10; x < 10; x += 0.7) {
      const double left = x - width / 2, right = x + width / 2;
      const double z = (left + (right - left) / 2 - centre) * inverse, w = (right - left) * inverse;
      EXPECT_NEAR(log_mass_of(left, right, centre, inverse),
                  -z * z / 2 - log_sqrt_2_pi + std::log(w) + w * w * (z * z - 1) / 24,
                  1e-11);
    }
  }
}

TEST(LogMixture, IsTheSumOfItsKernels) {
  const size_t kernels = 3 * kMixtureBlock, count = 50;
  RandomStream random(1, 1);
  std::vector<double> weight(kernels), offset(kernels), centre(kernels), scale(kernels), x(count);
  std::vector<int32_t> own(kernels), category(count);
  std::vector<double> more(count * kernels);
  for (size_t k = 0; k < kernels; ++k) {
    weight[k] = random.next(), offset[k] = 4 * random.next(), centre[k] = random.next();
    scale[k] = 50 * random.next(), own[k] = static_cast<int32_t>(3 * random.next());
    if (k > 300 || k % 17 == 3) offset[k] = -kInf;
  }
  for (double& log : more) log = -30 * random.next();
  for (size_t c = 0; c < count; ++c) x[c] = random.next() * 1.2, category[c] = c % 3;
  Mixture mixture{
      .kernels = kernels, .weight = weight.data(), .offset = offset.data(), .candidates = count};
  mixture.continuous = {{centre.data(), scale.data(), x.data()}};
  mixture.categories = {{own.data(), 1.25, category.data()}};
  mixture.more = more.data();
  std::vector<double> out(count);
  log_mixture(mixture, out.data());
  for (size_t c = 0; c < count; ++c) {
    long double sum = 0;
    for (size_t k = 0; k < kernels; ++k) {
      const long double z = (static_cast<long double>(x[c]) - centre[k]) * scale[k];
      sum += weight[k] * std::exp(offset[k] - z * z + (own[k] == category[c] ? 1.25L : 0) +
                                  more[c * kernels + k]);
    }
    EXPECT_NEAR(out[c], static_cast<double>(std::log(sum)), 1e-12);
  }
}

TEST(LogMixture, OfNoKernelIsMinusInfinity) {
  const std::vector<double> weight(kMixtureBlock, 1), offset(kMixtureBlock, -kInf);
  double out = 0;
  log_mixture(
      {.kernels = kMixtureBlock, .weight = weight.data(), .offset = offset.data(), .candidates = 1},
      &out);
  EXPECT_EQ(out, -kInf);
}

TEST(NormalQuantile, IsTheInverseOfTheDistribution) {
  for (const double p : {1e-300, 1e-20, 1e-5, 0.01, 0.0749, 0.0751, 0.3, 0.5, 0.7, 0.99}) {
    const double z = inverse_normal_cdf(p);
    EXPECT_NEAR(std::erfc(-z / std::sqrt(2.0)) / 2 / p, 1, 1e-12) << p;
  }
  EXPECT_NEAR(inverse_normal_cdf(1 - 1e-10), -inverse_normal_cdf(1e-10), 1e-6);
}

TEST(TruncatedNormalQuantile, HasItsShareOnItsLeft) {
  const auto share = [](double z) { return std::erfc(-z / std::sqrt(2.0)) / 2; };
  for (const double width : {0.01, 0.3, 1.0, 5.0}) {
    for (const double centre : {0.0, 0.2, 1.0}) {
      const double left = share((0 - centre) / width), right = share((1 - centre) / width);
      for (const double u : {1e-9, 0.1, 0.5, 0.9, 1 - 1e-9}) {
        const double x = truncated_normal_quantile(u, centre, width, 0, 1);
        EXPECT_GE(x, 0);
        EXPECT_LE(x, 1);
        EXPECT_NEAR((share((x - centre) / width) - left) / (right - left), u, 1e-12);
      }
    }
  }
  EXPECT_NEAR(
      truncated_normal_quantile(0.975, 2, 3, -kInf, kInf), 2 + 3 * 1.959963984540054, 1e-12);
}

}  // namespace
}  // namespace muster::tune
