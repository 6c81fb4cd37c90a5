#include "muster/tune/schedule/pbt/population.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/tune/space/unit_axis.h"

namespace muster::tune {

Quantiles quantiles(std::vector<Scored> trials, double fraction) {
  for (Scored& trial : trials) {
    if (!std::isfinite(trial.score)) trial.score = -std::numeric_limits<double>::infinity();
  }
  std::ranges::sort(trials, [](const Scored& a, const Scored& b) {
    return a.score != b.score ? a.score < b.score : a.number < b.number;
  });
  if (trials.size() < 2) return {};
  const double wanted = std::ceil(static_cast<double>(trials.size()) * fraction);
  const auto count = std::min(static_cast<size_t>(wanted), trials.size() / 2);
  Quantiles out;
  for (size_t i = 0; i < count; ++i) out.lower.push_back(trials[i].number);
  for (size_t i = trials.size() - count; i < trials.size(); ++i) {
    if (std::isfinite(trials[i].score)) out.upper.push_back(trials[i].number);
  }
  return out;
}

double perturbed(const Distribution& distribution, double number, bool up, double factor) {
  const int64_t step = up ? 1 : -1;
  if (std::holds_alternative<CategoricalDistribution>(distribution))
    return shifted(distribution, number, step);
  double product = number * factor;
  // A half to the even neighbour, as Python rounds, and not as seen from the lowest number.
  if (std::holds_alternative<IntDistribution>(distribution)) product = std::nearbyint(product);
  const double moved = nearest_number(distribution, product);
  if (moved != number || number == 0) return moved;
  return shifted(distribution, number, (number > 0) == (factor > 1) ? 1 : -1);
}

}  // namespace muster::tune
