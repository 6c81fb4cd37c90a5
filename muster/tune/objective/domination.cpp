#include "muster/tune/objective/domination.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace muster::tune {
namespace {

/// Places of different losses in lexical order, and whose loss each given one has.
struct Distinct {
  std::vector<size_t> places;  // into the given, of the first of its kind
  std::vector<size_t> which;   // by given one: into `places`
};

Distinct distinct(std::span<const Losses> losses) {
  std::vector<size_t> order(losses.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return losses[a] < losses[b]; });
  Distinct out{.places = {}, .which = std::vector<size_t>(losses.size())};
  for (const size_t place : order) {
    if (out.places.empty() || losses[out.places.back()] != losses[place])
      out.places.push_back(place);
    out.which[place] = out.places.size() - 1;
  }
  return out;
}

/// Of rows in lexical order, those that no row before dominates: none after can.
std::vector<bool> first_front(std::span<const Losses> losses, std::span<const size_t> rows) {
  std::vector<bool> on(rows.size(), false);
  if (losses[rows[0]].size() == 2) {
    double least = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < rows.size(); ++i) {
      const double second = losses[rows[i]][1];
      on[i] = i == 0 || second < least;
      least = std::min(least, second);
    }
    return on;
  }
  std::vector<size_t> front;
  for (size_t i = 0; i < rows.size(); ++i) {
    on[i] = std::ranges::none_of(
        front, [&](size_t better) { return dominates(losses[better], losses[rows[i]]); });
    if (on[i]) front.push_back(rows[i]);
  }
  return on;
}

}  // namespace

bool dominates(std::span<const double> a, std::span<const double> b) {
  bool better = false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!(a[i] <= b[i])) return false;
    better |= a[i] < b[i];
  }
  return better;
}

bool dominates_feasibly(std::span<const double> a,
                        double violation_a,
                        std::span<const double> b,
                        double violation_b) {
  if (violation_a <= 0 && violation_b <= 0) return dominates(a, b);
  if (violation_a <= 0) return true;
  return violation_b > 0 && violation_a < violation_b;
}

std::vector<int64_t> front_ranks(std::span<const Losses> losses, size_t enough) {
  std::vector<int64_t> out(losses.size(), 0);
  if (losses.empty() || enough == 0) return out;
  const Distinct all = distinct(losses);
  std::vector<int64_t> ranks(all.places.size(), 0);
  enough = std::min(enough, all.places.size());
  const bool is_one = losses[0].size() == 1;
  std::vector<size_t> left(all.places.size());
  std::iota(left.begin(), left.end(), size_t{0});
  if (is_one) std::iota(ranks.begin(), ranks.end(), int64_t{0});
  for (int64_t rank = 0; !is_one && !left.empty(); ++rank) {
    for (const size_t row : left) ranks[row] = rank;
    if (all.places.size() - left.size() >= enough) break;
    std::vector<size_t> rows;
    for (const size_t row : left) rows.push_back(all.places[row]);
    const std::vector<bool> on = first_front(losses, rows);
    std::vector<size_t> behind;
    for (size_t i = 0; i < left.size(); ++i) {
      if (!on[i]) behind.push_back(left[i]);
    }
    left = std::move(behind);
  }
  for (size_t i = 0; i < out.size(); ++i) out[i] = ranks[all.which[i]];
  return out;
}

std::vector<int64_t> front_ranks(std::span<const Losses> losses,
                                 std::span<const double> violations) {
  std::vector<Losses> feasible, infeasible;
  for (size_t i = 0; i < losses.size(); ++i) {
    if (violations[i] > 0) {
      infeasible.push_back({violations[i]});
    } else {
      feasible.push_back(losses[i]);
    }
  }
  const auto first = front_ranks(feasible), then = front_ranks(infeasible);
  const int64_t behind = first.empty() ? 0 : *std::ranges::max_element(first) + 1;
  std::vector<int64_t> out;
  size_t f = 0, v = 0;
  for (const double violation : violations)
    out.push_back(violation > 0 ? behind + then[v++] : first[f++]);
  return out;
}

std::vector<double> crowding_distances(std::span<const Losses> values, std::vector<size_t>* order) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  std::vector<double> distances(values.size(), 0);
  std::vector<size_t> sorted(values.size());
  std::iota(sorted.begin(), sorted.end(), size_t{0});
  for (size_t i = 0; !values.empty() && i < values[0].size(); ++i) {
    std::ranges::stable_sort(sorted,
                             [&](size_t a, size_t b) { return values[a][i] < values[b][i]; });
    if (values[sorted.front()][i] == values[sorted.back()][i]) continue;
    std::vector<double> line = {-kInfinite};
    for (const size_t place : sorted) line.push_back(values[place][i]);
    line.push_back(kInfinite);
    const double least = *std::ranges::find_if(line, [&](double x) { return x != -kInfinite; });
    const double most =
        *std::find_if(line.rbegin(), line.rend(), [&](double x) { return x != kInfinite; });
    const double width = most - least > 0 ? most - least : 1;
    for (size_t j = 0; j < sorted.size(); ++j) {
      const double gap = line[j] == line[j + 2] ? 0 : line[j + 2] - line[j];
      // Two numbers at the ends of double are infinitely far apart.
      distances[sorted[j]] += std::isinf(gap) ? kInfinite : gap / width;
    }
  }
  if (order != nullptr) *order = std::move(sorted);
  return distances;
}

std::vector<size_t> elite(std::span<const Losses> values,
                          std::span<const Losses> losses,
                          std::span<const double> violations,
                          size_t count) {
  const std::vector<int64_t> ranks = front_ranks(losses, violations);
  std::vector<size_t> chosen;
  for (int64_t rank = 0; chosen.size() < std::min(count, values.size()); ++rank) {
    std::vector<size_t> front;
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (ranks[i] == rank) front.push_back(i);
    }
    if (chosen.size() + front.size() < count) {
      chosen.insert(chosen.end(), front.begin(), front.end());
      continue;
    }
    std::vector<Losses> of_front;
    for (const size_t place : front) of_front.push_back(values[place]);
    std::vector<size_t> order;
    const std::vector<double> distances = crowding_distances(of_front, &order);
    std::ranges::stable_sort(order, {}, [&](size_t i) { return distances[i]; });
    std::ranges::reverse(order);
    for (size_t i = 0; chosen.size() < count; ++i) chosen.push_back(front[order[i]]);
  }
  return chosen;
}

}  // namespace muster::tune
