#include "muster/tune/search/nsga2/child.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/tune/search/tpe/axis.h"

namespace muster::tune {
namespace {

size_t drawn_place(size_t count, const std::function<double()>& uniform) {
  return std::min(static_cast<size_t>(uniform() * static_cast<double>(count)), count - 1);
}

/// Of the places in `among`.
size_t tournament(std::span<const Individual> parents,
                  std::span<const size_t> among,
                  const std::function<double()>& uniform) {
  const size_t first = among[drawn_place(among.size(), uniform)];
  const size_t second = among[drawn_place(among.size(), uniform)];
  const Individual &a = parents[first], &b = parents[second];
  return dominates_feasibly(a.losses, a.violation, b.losses, b.violation) ? first : second;
}

Point crossed(std::span<const Individual> parents,
              std::span<const size_t> dimensions,
              double swap,
              const std::function<double()>& uniform) {
  std::vector<size_t> among(parents.size());
  for (size_t i = 0; i < among.size(); ++i) among[i] = i;
  const size_t first = tournament(parents, among, uniform);
  among.erase(among.begin() + static_cast<std::ptrdiff_t>(first));
  const size_t second = tournament(parents, among, uniform);
  const Point *one = &parents[first].point, *other = &parents[second].point;
  Point child(one->size(), std::numeric_limits<double>::quiet_NaN());
  for (const size_t d : dimensions) {
    const bool swaps = uniform() >= swap;
    child[d] = swaps ? (*other)[d] : (*one)[d];
    if (std::isnan(child[d])) child[d] = swaps ? (*one)[d] : (*other)[d];
  }
  return child;
}

}  // namespace

std::vector<size_t> crossed_dimensions(std::span<const Dimension> dimensions) {
  std::vector<size_t> categories, numbers;
  for (size_t d = 0; d < dimensions.size(); ++d) {
    const Distribution& distribution = dimensions[d].distribution;
    if (has_one_value(distribution)) continue;
    const bool is_category = std::holds_alternative<CategoricalDistribution>(distribution);
    (is_category ? categories : numbers).push_back(d);
  }
  categories.insert(categories.end(), numbers.begin(), numbers.end());
  return categories;
}

Point child_of(std::span<const Individual> parents,
               std::span<const size_t> dimensions,
               const ChildRules& rules,
               const std::function<double()>& uniform) {
  constexpr double kOpen = std::numeric_limits<double>::quiet_NaN();
  Point child;
  if (uniform() < rules.crossover) {
    child = crossed(parents, dimensions, rules.swap, uniform);
  } else {
    const Point& parent = parents[drawn_place(parents.size(), uniform)].point;
    child.assign(parent.size(), kOpen);
    for (const size_t d : dimensions) child[d] = parent[d];
  }
  const double n = std::max(1.0, static_cast<double>(dimensions.size()));
  const double mutation = rules.mutation < 0 ? 1 / n : rules.mutation;
  for (const size_t d : dimensions) {
    if (uniform() < mutation) child[d] = kOpen;
  }
  return child;
}

}  // namespace muster::tune
