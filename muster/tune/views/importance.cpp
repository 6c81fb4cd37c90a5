#include "muster/tune/views/importance.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <span>

namespace muster::tune {
namespace {

constexpr double kTopShare = 0.1;
constexpr size_t kMostCells = 50;
constexpr double kPriorWeight = 1;
constexpr double kAnyDensity = 1e-12;
constexpr size_t kLeastTrialsOfRegime = 2;

bool has_one_number(const FloatDistribution& d) {
  return d.low == d.high || (d.step > 0 && d.high - d.low < d.step);
}
bool has_one_number(const IntDistribution& d) {
  // As doubles: of Optuna's the width may be beyond 64 bits.
  const double width = static_cast<double>(d.high) - static_cast<double>(d.low);
  return d.low == d.high || (!d.log && width < static_cast<double>(d.step));
}
bool has_one_number(const CategoricalDistribution& d) { return d.choices.size() == 1; }
bool has_one_number(const NormalDistribution& /*d*/) { return false; }

/// A range cut into cells of equal width, of the logarithm where that is uniform. In halves: the
/// width of a range may be beyond doubles.
struct CellAxis {
  double low = 0, width = 1;  // half of them
  size_t cells = 1;
  bool log = false;

  CellAxis(double from, double to, bool is_log, size_t count) : cells(count), log(is_log) {
    low = at(from);
    width = (at(to) - low) / static_cast<double>(count - 1);
  }
  double at(double number) const { return (log ? std::log(number) : number) / 2; }
  /// The nearest cell's; between two, the lower one's.
  size_t cell(double number) const {
    const double place = std::ceil((at(number) - low) / width - 0.5);
    return static_cast<size_t>(std::clamp(place, 0.0, static_cast<double>(cells - 1)));
  }
};

size_t cells_of_steps(double steps) {
  return static_cast<size_t>(std::min<double>(kMostCells, std::nearbyint(steps) + 1));
}

CellAxis cell_axis(const FloatDistribution& d) {
  const size_t cells = d.step > 0 ? cells_of_steps((d.high - d.low) / d.step) : kMostCells;
  return {d.low, d.high, d.log, cells};
}
CellAxis cell_axis(const IntDistribution& d) {
  const auto low = static_cast<double>(d.low), high = static_cast<double>(d.high);
  if (!d.log) return {low, high, false, cells_of_steps((high - low) / static_cast<double>(d.step))};
  const double bits = std::ceil(std::log(high - low + 1) / std::numbers::ln2);
  return {low, high, true, std::min(kMostCells, static_cast<size_t>(bits) + 1)};
}
CellAxis cell_axis(const NormalDistribution& d) {  // Optuna's range of it; no table has one
  return {d.mean - 10 * d.sd, d.mean + 10 * d.sd, false, kMostCells};
}

std::vector<double> normalised(std::vector<double> weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight /= sum;
  return weights;
}

/// P(low < Z <= high) of a standard normal Z, from the side where it keeps its digits.
double normal_mass(double low, double high) {
  if (low > 0) return normal_mass(-high, -low);
  return (std::erfc(-high / std::numbers::sqrt2) - std::erfc(-low / std::numbers::sqrt2)) / 2;
}

/// The width of the kernels by Scott's rule, in cells. `cells` are those with a weight, rising.
double scott_width(std::span<const double> cells, std::span<const double> weights) {
  std::vector<double> cumulated(weights.size());
  std::partial_sum(weights.begin(), weights.end(), cumulated.begin());
  const double sum = cumulated.back();
  const double mean = std::inner_product(cells.begin(), cells.end(), weights.begin(), 0.0) / sum;
  double squares = 0;
  for (size_t i = 0; i < cells.size(); ++i)
    squares += weights[i] * (cells[i] - mean) * (cells[i] - mean);
  const double deviation = std::sqrt(squares / std::max(1.0, sum - 1));
  const auto place = [&](auto found) { return static_cast<size_t>(found - cumulated.begin()); };
  const size_t first = place(std::ranges::lower_bound(cumulated, std::floor(sum / 4)));
  const size_t third = place(std::ranges::upper_bound(cumulated, std::floor(sum * 3 / 4)));
  const double quartiles = cells[std::min(cells.size() - 1, third)] - cells[first];
  const double width = 1.059 * std::min(quartiles / 1.34, deviation) * std::pow(sum, -0.2);
  constexpr double kLeast = 0.5 / 1.64;  // nine tenths of a kernel are in its own cell
  return std::max(width, kLeast);
}

struct Kernels {
  std::vector<double> cells, weights;  // of those with a trial; weights are counts of trials
};

Kernels kernels_of(std::span<const double> counts) {
  Kernels kernels;
  for (size_t cell = 0; cell < counts.size(); ++cell) {
    if (counts[cell] == 0) continue;
    kernels.cells.push_back(static_cast<double>(cell));
    kernels.weights.push_back(counts[cell]);
  }
  return kernels;
}

/// The density over the cells: normal kernels at the trials' cells and one over all, each of its
/// mass within the range. Source: optuna 5.0.0, ScottParzenEstimator.
std::vector<double> numeric_density(std::span<const double> counts) {
  const Kernels kernels = kernels_of(counts);
  const auto last = static_cast<double>(counts.size() - 1);
  std::vector<double> centres = kernels.cells, weights = kernels.weights;
  std::vector<double> widths(centres.size(), scott_width(kernels.cells, kernels.weights));
  centres.push_back(last / 2);
  widths.push_back(last + 1);
  weights.push_back(kPriorWeight);
  weights = normalised(std::move(weights));
  std::vector<double> density(counts.size(), 0);
  for (size_t k = 0; k < centres.size(); ++k) {
    const auto mass = [&](double low, double high) {
      return normal_mass((low - centres[k]) / widths[k], (high - centres[k]) / widths[k]);
    };
    const double all = mass(-0.5, last + 0.5);
    for (size_t cell = 0; cell < density.size(); ++cell) {
      const auto x = static_cast<double>(cell);
      density[cell] += weights[k] * mass(x - 0.5, x + 0.5) / all;
    }
  }
  return density;
}

std::vector<double> categorical_density(std::span<const double> counts) {
  const Kernels kernels = kernels_of(counts);
  const auto choices = static_cast<double>(counts.size());
  const double everywhere = kPriorWeight / static_cast<double>(kernels.cells.size() + 1);
  const double row_sum = choices * everywhere + 1;
  std::vector<double> weights = kernels.weights;
  weights.push_back(kPriorWeight);
  weights = normalised(std::move(weights));
  std::vector<double> density(counts.size(), weights.back() / choices);
  for (size_t k = 0; k < kernels.cells.size(); ++k) {
    for (double& cell : density) cell += weights[k] * everywhere / row_sum;
    density[static_cast<size_t>(kernels.cells[k])] += weights[k] / row_sum;
  }
  return density;
}

using Regime = ParameterTable::Regime;

/// The density of a regime's trials, of all or of the best ones alone.
std::vector<double> density_of(const Regime& regime, const std::vector<bool>& counted) {
  const auto count = [&](size_t cells, auto&& cell_of) {
    std::vector<double> counts(cells, 0);
    for (size_t i = 0; i < regime.trials.size(); ++i) {
      if (counted[regime.trials[i]]) ++counts[cell_of(regime.numbers[i])];
    }
    return counts;
  };
  if (const auto* d = std::get_if<CategoricalDistribution>(&regime.distribution)) {
    const size_t last = d->choices.size() - 1;
    return categorical_density(count(last + 1, [&](double number) {
      return static_cast<size_t>(std::clamp(number, 0.0, static_cast<double>(last)));
    }));
  }
  const CellAxis axis = std::visit(
      [](const auto& d) -> CellAxis {
        if constexpr (std::is_same_v<std::decay_t<decltype(d)>, CategoricalDistribution>)
          return {0, 1, false, 2};
        else
          return cell_axis(d);
      },
      regime.distribution);
  return numeric_density(count(axis.cells, [&](double number) { return axis.cell(number); }));
}

/// How far the best trials' density is from that of all.
double pearson_divergence(const Regime& regime, const std::vector<bool>& best) {
  const auto top = density_of(regime, best);
  const auto all = density_of(regime, std::vector<bool>(best.size(), true));
  double sum = 0;
  for (size_t cell = 0; cell < all.size(); ++cell) {
    const double here = all[cell] + kAnyDensity;
    const double ratio = (top[cell] + kAnyDensity) / here - 1;
    sum += here * ratio * ratio;
  }
  return sum;
}

/// The best tenth, and whoever is as good as its last one.
std::vector<bool> best_of_table(const ParameterTable& table, Mode mode) {
  std::vector<double> scores;
  for (const double value : table.values) scores.push_back(score_of(value, mode));
  std::vector<double> sorted = scores;
  std::ranges::sort(sorted, std::greater());
  const double last = std::ceil(kTopShare * static_cast<double>(sorted.size())) - 1;
  std::vector<bool> best;
  for (const double score : scores) best.push_back(score >= sorted[static_cast<size_t>(last)]);
  return best;
}

double raw_importance(const ParameterTable::Column& column, const std::vector<bool>& best) {
  const auto all = static_cast<double>(best.size());
  const auto top = static_cast<double>(std::ranges::count(best, true));
  double sum = 0;
  for (const Regime& regime : column.regimes) {
    const auto here = static_cast<double>(regime.trials.size());
    const auto top_here = static_cast<double>(
        std::ranges::count_if(regime.trials, [&](size_t trial) { return best[trial]; }));
    const bool is_fixed =
        std::visit([](const auto& d) { return has_one_number(d); }, regime.distribution);
    if (regime.trials.size() < kLeastTrialsOfRegime || is_fixed || top_here == 0) continue;
    const double top_share = top_here / top, share = here / all;
    sum += top_share * top_share / share * pearson_divergence(regime, best);
  }
  return sum;
}

}  // namespace

size_t best_trials(const ParameterTable& table, Mode mode) {
  return table.values.empty()
             ? 0
             : static_cast<size_t>(std::ranges::count(best_of_table(table, mode), true));
}

std::vector<Importance> parameter_importance(const ParameterTable& table, Mode mode) {
  std::vector<Importance> out;
  const bool is_enough = table.values.size() > 1;
  const auto best = is_enough ? best_of_table(table, mode) : std::vector<bool>();
  double sum = 0;
  for (const auto& column : table.columns) {
    out.push_back({column.name, is_enough ? raw_importance(column, best) : 0});
    sum += out.back().share;
  }
  for (Importance& importance : out)
    importance.share = sum > 0 ? importance.share / sum : 1 / static_cast<double>(out.size());
  std::ranges::stable_sort(out, std::greater(), &Importance::share);
  return out;
}

}  // namespace muster::tune
