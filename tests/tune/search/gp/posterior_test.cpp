#include <cmath>

#include <gtest/gtest.h>

#include "muster/base/philox.h"
#include "muster/tune/search/gp/acquisition.h"
#include "muster/tune/search/gp/fit.h"

namespace muster::tune {
namespace {

double uniform_number(uint32_t i, uint32_t stream) {
  return static_cast<double>(philox4x32_10({i, stream, 0, 0}, {1, 2})[0]) * 0x1p-32;
}

PointSet random_points(size_t n, size_t axes, uint32_t stream) {
  PointSet out(axes);
  for (size_t i = 0; i < n; ++i) {
    std::vector<double> point;
    for (size_t k = 0; k < axes; ++k)
      point.push_back(uniform_number(static_cast<uint32_t>(i * axes + k), stream));
    out.append(point);
  }
  return out;
}

std::vector<double> wave(const PointSet& points) {
  std::vector<double> out;
  for (size_t i = 0; i < points.size(); ++i) out.push_back(std::sin(5 * points.at(i, 0)));
  return out;
}

const GpHyper& some_hyper() {
  static const GpHyper hyper{.weights = {2, 7, 0.5}, .scale = 1.3, .noise = 1e-3};
  return hyper;
}

GpPosterior::Answer ask_all(const GpPosterior& posterior, const PointSet& points) {
  GpPosterior::Answer out;
  posterior.ask(points, 0, points.size(), true, out);
  return out;
}

TEST(GpPosterior, APointMoreIsAsIfItHadBeenThereFromTheBeginning) {
  const PointSet points = random_points(150, 3, 1), asked = random_points(20, 3, 2);
  GpPosterior whole({0, 0, 0}, some_hyper()), grown({0, 0, 0}, some_hyper());
  whole.assign(points);
  PointSet first(3);
  for (size_t i = 0; i < 40; ++i) first.append(points.point(i));
  grown.assign(first);
  for (size_t i = 40; i < points.size(); ++i) grown.append(points.point(i));
  whole.set_targets(wave(points));
  grown.set_targets(wave(points));
  const auto a = ask_all(whole, asked), b = ask_all(grown, asked);
  for (size_t i = 0; i < asked.size(); ++i) {
    EXPECT_NEAR(a.mean[i], b.mean[i], 1e-10);
    EXPECT_NEAR(a.variance[i], b.variance[i], 1e-10);
  }
}

TEST(GpPosterior, PointsThatAreTakenBackLeaveNoTrace) {
  const PointSet points = random_points(30, 3, 1), more = random_points(9, 3, 3),
                 asked = random_points(5, 3, 2);
  GpPosterior posterior({0, 0, 0}, some_hyper());
  posterior.assign(points);
  posterior.set_targets(wave(points));
  const auto before = ask_all(posterior, asked);
  for (size_t i = 0; i < more.size(); ++i) posterior.append(more.point(i), kStabilizingNoise);
  const auto between = ask_all(posterior, asked);
  posterior.truncate(points.size());
  const auto after = ask_all(posterior, asked);
  EXPECT_EQ(before.mean, after.mean);
  EXPECT_EQ(before.variance, after.variance);
  for (size_t i = 0; i < asked.size(); ++i) {
    EXPECT_NEAR(between.mean[i], before.mean[i], 1e-10) << "rows without a value leave the mean";
    EXPECT_LT(between.variance[i], before.variance[i]);
  }
}

TEST(GpPosterior, TwinsDoNotBreakIt) {
  GpHyper hyper = some_hyper();
  hyper.noise = kLeastNoise;
  hyper.scale = 50;
  PointSet points(3);
  for (int i = 0; i < 400; ++i)
    points.append(std::vector<double>{0.5, 0.5, i % 2 == 0 ? 0.5 : 0.5 + 1e-9});
  GpPosterior posterior({0, 0, 0}, hyper);
  posterior.assign(points);
  posterior.set_targets(std::vector<double>(points.size(), 2.0));
  for (int i = 0; i < 50; ++i) posterior.append(points.point(0), kStabilizingNoise);
  const auto answer = ask_all(posterior, points);
  for (size_t i = 0; i < points.size(); ++i) {
    EXPECT_NEAR(answer.mean[i], 2, 1e-3);
    EXPECT_LT(answer.variance[i], 1e-4);
  }
}

TEST(GpPosterior, GradientsAreThoseOfTheValues) {
  const PointSet points = random_points(25, 3, 1);
  GpPosterior posterior({0, 0, 0}, some_hyper());
  posterior.assign(points);
  posterior.set_targets(wave(points));
  posterior.append(std::vector<double>{0.1, 0.9, 0.4}, kStabilizingNoise);
  posterior.append(std::vector<double>{0.2, 0.8, 0.4}, kStabilizingNoise);
  Acquisition plain(posterior, 0.7), fantasies(posterior, 0.7);
  fantasies.set_fantasies(Fantasies::of_sobol(128, 2, 1, 1));
  fantasies.set_feasibility(posterior, -0.2);
  const PointSet asked = random_points(10, 3, 4);
  for (const Acquisition* acquisition : {&plain, &fantasies}) {
    std::vector<double> gradients;
    acquisition->values(asked, gradients);
    for (size_t i = 0; i < asked.size(); ++i) {
      for (size_t k = 0; k < 3; ++k) {
        const double h = 1e-5;
        PointSet around(3);
        around.append(asked.point(i));
        around.append(asked.point(i));
        around.at(0, k) += h;
        around.at(1, k) -= h;
        const auto values = acquisition->values(around);
        const double slope = (values[0] - values[1]) / (2 * h);
        EXPECT_NEAR(gradients[i * 3 + k], slope, 1e-4 * std::max(1.0, std::abs(slope)));
      }
    }
  }
}

TEST(GpFit, TheGradientLeadsToTheLeastLoss) {
  // At the end no neighbour in any hyperparameter is better.
  const PointSet points = random_points(60, 3, 1);
  const std::vector<uint8_t> hamming = {0, 0, 0};
  const GpHyper start = default_hyper(3);
  const GpHyper found = fit_hyper(points, wave(points), hamming, {&start, 1});
  const double loss = *map_loss(points, wave(points), hamming, found);
  for (size_t k = 0; k < 5; ++k) {
    for (const double factor : {0.97, 1.03}) {
      GpHyper other = found;
      (k < 3 ? other.weights[k] : k == 3 ? other.scale : other.noise) *= factor;
      if (other.noise < kLeastNoise) continue;
      EXPECT_GT(*map_loss(points, wave(points), hamming, other), loss - 1e-6) << k << " " << factor;
    }
  }
}

TEST(GpDense, BothBuildsOfTheArithmeticAgree) {
  if (kAvx2Math == nullptr || !can_run_avx2()) {
    EXPECT_EQ(&dense_math(), &kBaselineMath);
    return;
  }
  EXPECT_EQ(&dense_math(), kAvx2Math);
  const size_t n = 131;
  const PointSet points = random_points(n, 3, 5);
  const std::vector<double> weights = {1, 20, 3};
  const std::vector<uint8_t> hamming = {0, 0, 0};
  const DenseKernel kernel{weights.data(), hamming.data(), 3, 2};
  DenseVector results[2];
  for (const bool fast : {false, true}) {
    const DenseMath& math = fast ? *kAvx2Math : kBaselineMath;
    DenseVector k(n * n), slopes(n * n), gram(n * n), product(n), sums(3);
    math.covariance(kernel, points.dense(), points.dense(), true, k.data(), slopes.data(), n);
    for (size_t i = 0; i < n; ++i) k[i * n + i] += 0.01;
    double half_log_determinant = 0;
    ASSERT_TRUE(math.invert_cholesky(k.data(), n, n, &half_log_determinant));
    math.gram(k.data(), n, n, gram.data(), n);
    const DenseVector ones(n, 1.0);
    math.multiply(k.data(), n, n, true, ones.data(), product.data(), 1, n);
    math.weigh_distances(kernel, points.dense(), slopes.data(), n, sums.data());
    DenseVector& out = results[fast ? 1 : 0];
    for (size_t j = 0; j < n; ++j) out.insert(out.end(), &gram[j * n + j], &gram[j * n + n]);
    out.insert(out.end(), product.begin(), product.end());
    out.insert(out.end(), sums.begin(), sums.end());
    out.push_back(half_log_determinant);
  }
  for (size_t i = 0; i < results[0].size(); ++i)
    EXPECT_NEAR(results[0][i], results[1][i], 1e-9 * std::max(1.0, std::abs(results[0][i]))) << i;
}

}  // namespace
}  // namespace muster::tune
