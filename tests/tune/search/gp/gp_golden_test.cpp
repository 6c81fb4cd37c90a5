// The Gaussian process beside Optuna's: tests/golden/gp.
#include <cmath>

#include <gtest/gtest.h>

#include "muster/tune/search/gp/acquisition.h"
#include "muster/tune/search/gp/fit.h"
#include "muster/tune/search/gp/improvement.h"
#include "muster/tune/search/normal.h"

#include "tests/support/golden.h"

namespace muster::tune {
namespace {

using Rows = std::vector<std::vector<double>>;

const Json& golden() {
  static const Json json = test::read_golden("gp");
  return json;
}

PointSet points_of(const Json& rows) {
  PointSet out(rows.at(0).size());
  for (const auto& row : rows.get<Rows>()) out.append(row);
  return out;
}

std::vector<uint8_t> hamming_of(const Json& c) {
  std::vector<uint8_t> out(c["points"][0].size(), 0);
  for (size_t i = 0; i < c["categories"].get<size_t>(); ++i) out[out.size() - 1 - i] = 1;
  return out;
}

GpPosterior posterior_of(const Json& c) {
  const Json& hyper = c["hyper"];
  GpPosterior out(hamming_of(c),
                  {.weights = hyper["weights"].get<std::vector<double>>(),
                   .scale = hyper["scale"].get<double>(),
                   .noise = hyper["noise"].get<double>()});
  out.assign(points_of(c["points"]));
  out.set_targets(c["targets"].get<std::vector<double>>());
  return out;
}

/// To 1e-8, of numbers beyond 1 in proportion.
void expect_close(double ours, double optunas, const std::string& where) {
  EXPECT_NEAR(ours, optunas, 1e-8 * std::max(1.0, std::abs(optunas))) << where;
}

void expect_values(const Acquisition& acquisition, const Json& c, const std::string& name) {
  const PointSet asked = points_of(c["asked"]);
  std::vector<double> gradients;
  const auto values = acquisition.values(asked, gradients);
  const auto alone = acquisition.values(asked);
  for (size_t i = 0; i < asked.size(); ++i) {
    expect_close(values[i], c[name][i].get<double>(), name);
    expect_close(alone[i], values[i], name);
    for (size_t k = 0; k < asked.axes(); ++k) {
      const Json& theirs = c[name + "_gradient"][i][k];
      if (theirs.is_null()) continue;
      const double ours = gradients[i * asked.axes() + k];
      EXPECT_NEAR(ours, theirs.get<double>(), 1e-7 * std::max(1.0, std::abs(ours))) << name;
    }
  }
}

TEST(GpGolden, TheNormalDistributionIsAsExactAsScipys) {
  const Json& normal = golden()["normal"];
  for (size_t i = 0; i < normal["z"].size(); ++i) {
    const double z = normal["z"][i].get<double>();
    const double log_ei = normal["log_ei"][i].get<double>();
    const double log_cdf = normal["log_cdf"][i].get<double>();
    // Optuna's loses digits to a difference below -25: 1 / z^2 of them.
    const double lost = z < -25 ? 1e-15 * z * z : 0;
    EXPECT_NEAR(log_expected_improvement(z).value, log_ei, 1e-12 * std::abs(log_ei) + 1e-13 + lost)
        << z;
    EXPECT_NEAR(log_normal_cdf(z).value, log_cdf, 1e-12 * std::abs(log_cdf)) << z;
  }
  for (size_t i = 0; i < normal["p"].size(); ++i) {
    const double quantile = normal["quantile"][i].get<double>();
    EXPECT_NEAR(
        inverse_normal_cdf(normal["p"][i].get<double>()), quantile, 1e-14 * std::abs(quantile));
  }
}

TEST(GpGolden, SlopesAreThoseOfTheValues) {
  for (const double z : {-1000.0, -60.0, -25.5, -24.5, -5.0, -1.0, 0.0, 0.5, 4.0}) {
    const double h = 1e-5;
    const auto slope = [&](auto f) { return (f(z + h).value - f(z - h).value) / (2 * h); };
    EXPECT_NEAR(log_expected_improvement(z).slope / slope(log_expected_improvement), 1, 1e-6) << z;
    EXPECT_NEAR(log_normal_cdf(z).slope / slope(log_normal_cdf), 1, 1e-6) << z;
  }
}

TEST(GpGolden, PosteriorMeanAndVarianceAreOptunas) {
  for (const Json& c : golden()["posteriors"]) {
    const GpPosterior posterior = posterior_of(c);
    const PointSet asked = points_of(c["asked"]);
    GpPosterior::Answer answer;
    posterior.ask(asked, 0, asked.size(), false, answer);
    for (size_t i = 0; i < asked.size(); ++i) {
      expect_close(answer.mean[i], c["mean"][i].get<double>(), "mean");
      expect_close(answer.variance[i], c["variance"][i].get<double>(), "variance");
    }
  }
}

TEST(GpGolden, TheLogOfTheExpectedImprovementIsOptunas) {
  for (const Json& c : golden()["posteriors"]) {
    const GpPosterior posterior = posterior_of(c);
    expect_values(Acquisition(posterior, c["threshold"].get<double>()), c, "log_ei");
  }
}

TEST(GpGolden, WithRunningTrialsItIsOptunas) {
  for (const Json& c : golden()["posteriors"]) {
    GpPosterior posterior = posterior_of(c);
    for (const auto& row : c["running"].get<Rows>()) posterior.append(row, kStabilizingNoise);
    Acquisition acquisition(posterior, c["threshold"].get<double>());
    Fantasies fantasies{
        .samples = c["draws"][0].size(), .running = c["running"].size(), .draws = {}};
    for (const auto& row : c["draws"].get<Rows>())
      fantasies.draws.insert(fantasies.draws.end(), row.begin(), row.end());
    acquisition.set_fantasies(std::move(fantasies));
    expect_values(acquisition, c, "q_log_ei");
  }
}

TEST(GpGolden, TheLogProbabilityOfFeasibilityIsOptunas) {
  for (const Json& c : golden()["posteriors"]) {
    const GpPosterior posterior = posterior_of(c);
    Acquisition acquisition(posterior, 0);
    acquisition.ignore_objective();
    acquisition.set_feasibility(posterior, 0.3);
    const auto values = acquisition.values(points_of(c["asked"]));
    for (size_t i = 0; i < values.size(); ++i)
      expect_close(values[i], c["log_pi"][i].get<double>(), "log_pi");
  }
}

TEST(GpGolden, TheLossOfHyperparametersIsOptunas) {
  for (const Json& c : golden()["posteriors"]) {
    const auto loss = map_loss(points_of(c["points"]),
                               c["targets"].get<std::vector<double>>(),
                               hamming_of(c),
                               posterior_of(c).hyper());
    ASSERT_TRUE(loss);
    expect_close(*loss, c["loss"].get<double>(), "loss");
  }
}

TEST(GpGolden, TheMaximumAPosterioriIsNoWorseThanOptunas) {
  for (const Json& c : golden()["maps"]) {
    const PointSet points = points_of(c["points"]);
    const auto targets = c["targets"].get<std::vector<double>>();
    const auto hamming = hamming_of(c);
    const double their_loss = c["loss"].get<double>();
    const GpHyper start = default_hyper(hamming.size());
    const GpHyper ours = fit_hyper(
        points, targets, hamming, {&start, 1}, {.deterministic = c["deterministic"].get<bool>()});
    const auto our_loss = map_loss(points, targets, hamming, ours);
    ASSERT_TRUE(our_loss);
    EXPECT_LE(*our_loss, their_loss + 1e-6 * std::abs(their_loss))
        << points.size() << " points, " << hamming.size() << " axes";
  }
}

}  // namespace
}  // namespace muster::tune
