#include "muster/tune/search/cma/cma.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "muster/base/error.h"

namespace muster::tune {
namespace {

using CmaVector = Eigen::Map<Eigen::VectorXd>;
using CmaMatrix = Eigen::Map<Eigen::MatrixXd>;

constexpr double kCmaTiny = 1e-8;
constexpr double kCmaSigmaMost = 1e32;

Eigen::Map<const Eigen::VectorXd> vector_of(const std::vector<double>& v) {
  return {v.data(), static_cast<Eigen::Index>(v.size())};
}
CmaVector vector_of(std::vector<double>& v) {
  return {v.data(), static_cast<Eigen::Index>(v.size())};
}
Eigen::Map<const Eigen::MatrixXd> matrix_of(const std::vector<double>& m, size_t n) {
  return {m.data(), static_cast<Eigen::Index>(n), static_cast<Eigen::Index>(n)};
}
CmaMatrix matrix_of(std::vector<double>& m, size_t n) {
  return {m.data(), static_cast<Eigen::Index>(n), static_cast<Eigen::Index>(n)};
}

double sum_of_squares(std::span<const double> v) {
  return std::inner_product(v.begin(), v.end(), v.begin(), 0.0);
}

/// Values of low, low + step, …; as cmaes counts them.
int64_t levels_of(const CmaAxis& axis) {
  if (!(axis.step > 0)) return 0;
  return static_cast<int64_t>(std::ceil((axis.high + axis.step / 2 - axis.low) / axis.step));
}

bool is_possible(const CmaStart& start) {
  bool possible = !start.mean.empty() && start.mean.size() == start.axes.size() && start.sigma > 0;
  possible &= start.population == 0 || start.population >= 2;
  for (const CmaAxis& axis : start.axes) possible &= !(axis.step > 0) || levels_of(axis) >= 2;
  return possible;
}

}  // namespace

// Equations 49 to 56 of the tutorial.
Cma::Rates Cma::rates_of(size_t n, int64_t population) {
  const auto dims = static_cast<double>(n), size = static_cast<double>(population);
  Rates r;
  r.parents = static_cast<size_t>(population / 2);
  for (int64_t i = 1; i <= population; ++i)
    r.weights.push_back(std::log((size + 1) / 2) - std::log(static_cast<double>(i)));
  const std::span all(r.weights);
  const auto effective = [](std::span<const double> part) {
    const double sum = std::accumulate(part.begin(), part.end(), 0.0);
    return sum * sum / sum_of_squares(part);
  };
  r.mu_eff = effective(all.first(r.parents));
  const double mu_eff_minus = effective(all.subspan(r.parents));
  r.c_1 = 2 / ((dims + 1.3) * (dims + 1.3) + r.mu_eff);
  r.c_mu = std::min(1 - r.c_1 - kCmaTiny,
                    2 * (r.mu_eff - 2 + 1 / r.mu_eff) / ((dims + 2) * (dims + 2) + r.mu_eff));
  const double alpha = std::min({1 + r.c_1 / r.c_mu,
                                 1 + 2 * mu_eff_minus / (r.mu_eff + 2),
                                 (1 - r.c_1 - r.c_mu) / (dims * r.c_mu)});
  double positive = 0, negative = 0;
  for (const double w : all) (w > 0 ? positive : negative) += std::abs(w);
  for (double& w : r.weights) w *= w >= 0 ? 1 / positive : alpha / negative;
  r.weight_sum = std::accumulate(r.weights.begin(), r.weights.end(), 0.0);
  r.c_sigma = (r.mu_eff + 2) / (dims + r.mu_eff + 5);
  r.d_sigma = 1 + 2 * std::max(0.0, std::sqrt((r.mu_eff - 1) / (dims + 1)) - 1) + r.c_sigma;
  r.c_c = (4 + r.mu_eff / dims) / (dims + 4 + 2 * r.mu_eff / dims);
  r.chi = std::sqrt(dims) * (1 - 1 / (4 * dims) + 1 / (21 * dims * dims));
  return r;
}

Cma::Cma(const CmaStart& start)
    : axes_(start.axes), population_(start.population), sigma_(start.sigma), mean_(start.mean) {
  if (!is_possible(start)) throw internal_error({.refused = "a start of CMA-ES"});
  const size_t n = mean_.size();
  if (population_ == 0) {
    population_ = 4 + static_cast<int64_t>(std::floor(3 * std::log(static_cast<double>(n))));
  }
  rates_ = rates_of(n, population_);
  for (const CmaAxis& axis : axes_) levels_.push_back(levels_of(axis));
  margin_ = 1 / (static_cast<double>(n) * static_cast<double>(population_));
  tolerance_x_ = 1e-12 * sigma_;
  history_length_ = 10 + static_cast<size_t>(std::ceil(30 * static_cast<double>(n) /
                                                       static_cast<double>(population_)));
  bests_.assign(history_length_, 0);
  worsts_.assign(history_length_, 0);
  path_sigma_.assign(n, 0);
  path_c_.assign(n, 0);
  stretch_.assign(n, 1);
  scales_.assign(n, 1);
  covariance_.assign(n * n, 0);
  for (size_t i = 0; i < n; ++i) covariance_[i * n + i] = 1;
  directions_ = covariance_;
}

void Cma::decompose() {
  const size_t n = mean_.size();
  CmaMatrix c = matrix_of(covariance_, n);
  c = ((c + c.transpose()) / 2).eval();
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(c);
  if (solver.info() != Eigen::Success || !solver.eigenvalues().allFinite()) {
    sigma_ = std::numeric_limits<double>::quiet_NaN();  // is_spent()
    return;
  }
  const Eigen::VectorXd squares =
      (solver.eigenvalues().array() < 0).select(kCmaTiny, solver.eigenvalues());
  matrix_of(directions_, n) = solver.eigenvectors();
  vector_of(scales_) = squares.cwiseSqrt();
  c = solver.eigenvectors() * squares.asDiagonal() * solver.eigenvectors().transpose();
}

void Cma::tell(std::vector<CmaMember> members) {
  if (static_cast<int64_t>(members.size()) != population_)
    throw internal_error({.refused = "a generation of CMA-ES that is not complete"});
  std::ranges::stable_sort(members, {}, &CmaMember::value);
  ++generation_;
  const size_t n = mean_.size(), place = static_cast<size_t>(generation_) % history_length_;
  bests_[place] = members.front().value;
  worsts_[place] = members.back().value;

  const Rates& r = rates_;
  CmaVector mean = vector_of(mean_), path_sigma = vector_of(path_sigma_),
            path_c = vector_of(path_c_);
  CmaMatrix c = matrix_of(covariance_, n);
  const CmaMatrix b = matrix_of(directions_, n);
  const Eigen::MatrixXd whitening =
      b * vector_of(scales_).cwiseInverse().asDiagonal() * b.transpose();  // C^(-1/2)

  Eigen::MatrixXd y(n, members.size());
  for (size_t k = 0; k < members.size(); ++k)
    y.col(static_cast<Eigen::Index>(k)) = (vector_of(members[k].raw) - mean) / sigma_;
  const auto parents = static_cast<Eigen::Index>(r.parents);
  const Eigen::VectorXd y_w = y.leftCols(parents) * vector_of(r.weights).head(parents);
  mean += sigma_ * y_w;

  path_sigma = (1 - r.c_sigma) * path_sigma +
               std::sqrt(r.c_sigma * (2 - r.c_sigma) * r.mu_eff) * (whitening * y_w);
  const double length = path_sigma.norm();
  sigma_ = std::min(sigma_ * std::exp(r.c_sigma / r.d_sigma * (length / r.chi - 1)), kCmaSigmaMost);

  // The path of C stands still while that of sigma is too long: sigma grows first.
  const double settled =
      std::sqrt(1 - std::pow(1 - r.c_sigma, 2 * (static_cast<double>(generation_) + 1)));
  const bool is_short = length / settled < (1.4 + 2 / (static_cast<double>(n) + 1)) * r.chi;
  path_c *= 1 - r.c_c;
  if (is_short) path_c += std::sqrt(r.c_c * (2 - r.c_c) * r.mu_eff) * y_w;

  Eigen::VectorXd weights = vector_of(r.weights);
  const Eigen::MatrixXd white = whitening * y;
  for (Eigen::Index k = 0; k < weights.size(); ++k) {
    if (weights[k] < 0)
      weights[k] *= static_cast<double>(n) / (white.col(k).squaredNorm() + kCmaTiny);
  }
  const double lost = is_short ? 0 : r.c_c * (2 - r.c_c);
  c = (1 + r.c_1 * lost - r.c_1 - r.c_mu * r.weight_sum) * c +
      r.c_1 * (path_c * path_c.transpose()) + r.c_mu * (y * weights.asDiagonal() * y.transpose());
  keep_margin();
  decompose();
}

std::vector<double> Cma::draw(DrawStream& draws) const {
  const size_t n = mean_.size();
  Eigen::VectorXd z(n);
  for (double& z_i : z) z_i = draws.normal();
  std::vector<double> x(n);
  vector_of(x) =
      vector_of(mean_) + sigma_ * (matrix_of(directions_, n) * vector_of(scales_).cwiseProduct(z));
  return x;
}

bool Cma::is_inside(const std::vector<double>& x) const {
  for (size_t i = 0; i < x.size(); ++i) {
    if (levels_[i] == 0 && !(x[i] >= axes_[i].low && x[i] <= axes_[i].high)) return false;
  }
  return true;
}

std::vector<double> Cma::sample(DrawStream& draws) const {
  std::vector<double> x;
  for (size_t i = 0; i < 10 * mean_.size(); ++i) {
    x = draw(draws);
    if (is_inside(x)) return x;
  }
  x = draw(draws);
  for (size_t i = 0; i < x.size(); ++i) {
    if (levels_[i] == 0) x[i] = std::clamp(x[i], axes_[i].low, axes_[i].high);
  }
  return x;
}

std::vector<double> Cma::drawn_near(std::vector<double> raw) const {
  const size_t n = mean_.size();
  const auto dims = static_cast<double>(n);
  const Eigen::VectorXd y = (vector_of(raw) - vector_of(mean_)) / sigma_;
  const Eigen::VectorXd z =
      vector_of(scales_).cwiseInverse().cwiseProduct(matrix_of(directions_, n).transpose() * y);
  const double farthest = std::sqrt(dims) + 2 * dims / (dims + 2);
  const double share = std::min(1.0, farthest / z.norm());
  if (share < 1) vector_of(raw) = vector_of(mean_) + sigma_ * share * y;
  return raw;
}

bool Cma::is_spent() const {
  const size_t n = mean_.size();
  const auto mean = vector_of(mean_), scales = vector_of(scales_), path_c = vector_of(path_c_);
  const Eigen::VectorXd variances = matrix_of(covariance_, n).diagonal();
  if (!std::isfinite(sigma_) || !mean.allFinite() || !variances.allFinite()) return true;
  if (static_cast<size_t>(generation_) > history_length_) {
    const double best = std::min(std::ranges::min(bests_), std::ranges::min(worsts_));
    const double worst = std::max(std::ranges::max(bests_), std::ranges::max(worsts_));
    if (worst - best < 1e-12) return true;
  }
  if ((sigma_ * variances.array() < tolerance_x_).all() &&
      (sigma_ * path_c.array() < tolerance_x_).all())
    return true;
  if (sigma_ * scales.maxCoeff() > 1e4) return true;
  // Steps too small for the mean to notice.
  const Eigen::VectorXd beside = mean + 0.2 * sigma_ * variances.cwiseSqrt();
  if ((mean.array() == beside.array()).any()) return true;
  const auto axis = static_cast<Eigen::Index>(static_cast<size_t>(generation_) % n);
  const Eigen::VectorXd along =
      mean + 0.1 * sigma_ * scales[axis] * matrix_of(directions_, n).col(axis);
  if ((mean.array() == along.array()).all()) return true;
  return scales.maxCoeff() / scales.minCoeff() > 1e14;
}

}  // namespace muster::tune
