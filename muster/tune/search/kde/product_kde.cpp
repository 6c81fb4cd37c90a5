#include "muster/tune/search/kde/product_kde.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>

#include "muster/tune/search/normal.h"

namespace muster::tune {
namespace {

constexpr double kLeastDensity = 1e-32;
constexpr double kNegligibleLog = 138;  // e^-138 is 1e-60
constexpr size_t kRowsAtOnce = 128;

double standard_deviation(std::span<const double> column) {
  const auto n = static_cast<double>(column.size());
  const double mean = std::accumulate(column.begin(), column.end(), 0.0) / n;
  double squares = 0;
  for (const double x : column) squares += (x - mean) * (x - mean);
  return std::sqrt(squares / n);
}

}  // namespace

KdeColumns imputed(const KdeColumns& columns,
                   std::span<const KdeAxis> axes,
                   const KdeDraws& draws) {
  KdeColumns out = columns;
  const size_t n = columns.empty() ? 0 : columns[0].size();
  for (size_t row = 0; row < n; ++row) {
    for (size_t c = 0; c < columns.size(); ++c) {
      if (!std::isnan(out[c][row])) continue;
      std::vector<size_t> donors;
      for (size_t other = 0; other < n; ++other) {
        if (std::isfinite(columns[c][other])) donors.push_back(other);
      }
      if (donors.empty()) {
        const size_t levels = axes[c].levels;
        out[c][row] = levels == 0 ? draws.uniform() : static_cast<double>(draws.index(levels));
        continue;
      }
      const size_t donor = donors[draws.index(donors.size())];
      for (size_t rest = c; rest < columns.size(); ++rest) {
        if (std::isnan(out[rest][row])) out[rest][row] = columns[rest][donor];
      }
    }
  }
  return out;
}

ProductKde::ProductKde(KdeColumns columns, std::vector<KdeAxis> axes, double least_bandwidth)
    : columns_(std::move(columns)), axes_(std::move(axes)) {
  const auto n = static_cast<double>(rows()), d = static_cast<double>(axes_.size());
  log_norm_ = std::log(n);
  for (size_t c = 0; c < axes_.size(); ++c) {
    double h = 1.06 * standard_deviation(columns_[c]) * std::pow(n, -1 / (4 + d));
    h = std::max(h, least_bandwidth);
    const auto levels = static_cast<double>(axes_[c].levels);
    if (levels > 0)
      h = std::min(h, (levels - 1) / levels);
    else
      log_norm_ += std::log(h) + std::log(2 * std::numbers::pi) / 2;
    bandwidths_.push_back(h);
  }
}

double ProductKde::part_of_density(std::span<const double> x, size_t first, size_t end) const {
  std::array<double, kRowsAtOnce> exponents, factors;
  const size_t count = end - first;
  std::fill_n(exponents.begin(), count, log_norm_);
  std::fill_n(factors.begin(), count, 1);
  for (size_t c = 0; c < axes_.size(); ++c) {
    const double h = bandwidths_[c], at = x[c];
    const double* column = columns_[c].data() + first;
    if (axes_[c].levels == 0) {
      const double scale = 1 / (h * std::numbers::sqrt2);
      for (size_t row = 0; row < count; ++row) {
        const double away = (at - column[row]) * scale;
        exponents[row] += away * away;
      }
    } else {
      const double same = 1 - h, other = h / static_cast<double>(axes_[c].levels - 1);
      for (size_t row = 0; row < count; ++row) factors[row] *= column[row] == at ? same : other;
    }
  }
  double sum = 0;
  for (size_t row = 0; row < count; ++row) {
    if (exponents[row] < kNegligibleLog) sum += factors[row] * std::exp(-exponents[row]);
  }
  return sum;
}

double ProductKde::density(std::span<const double> x, double enough) const {
  double sum = 0;
  for (size_t first = 0; first < rows() && sum < enough; first += kRowsAtOnce)
    sum += part_of_density(x, first, std::min(rows(), first + kRowsAtOnce));
  return sum;
}

double KdeModel::acquisition(std::span<const double> x, double least) const {
  const double good_density = std::max(good.density(x), kLeastDensity);
  const double bad_density = bad.density(x, least * good_density);
  return std::max(kLeastDensity, bad_density) / good_density;
}

std::vector<double> KdeModel::candidate(DrawStream& draws,
                                        double widen,
                                        std::span<const double> fixed) const {
  const size_t centre = draws.index(good.rows());
  std::vector<double> x;
  for (size_t c = 0; c < good.axes().size(); ++c) {
    const double h = good.bandwidths()[c], middle = good.at(centre, c);
    const size_t levels = good.axes()[c].levels;
    double place = middle;
    if (levels > 0) {
      if (!(draws.uniform() < 1 - h)) place = static_cast<double>(draws.index(levels));
    } else {
      const double low = normal_cdf(-middle / (widen * h));
      const double high = normal_cdf((1 - middle) / (widen * h));
      const double z = inverse_normal_cdf(low + draws.uniform() * (high - low));
      place = std::clamp(middle + widen * h * z, 0.0, 1.0);
    }
    x.push_back(std::isnan(fixed[c]) ? place : fixed[c]);
  }
  return x;
}

}  // namespace muster::tune
