#include "muster/tune/objective/hypervolume.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace muster::tune {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

double box(std::span<const double> losses, std::span<const double> reference) {
  double volume = 1;
  for (size_t i = 0; i < losses.size(); ++i) volume *= reference[i] - losses[i];
  return volume;
}

/// Without those that another one dominates, each once, in lexical order.
std::vector<Losses> front_of_losses(std::vector<Losses> losses) {
  std::ranges::sort(losses);
  losses.erase(std::unique(losses.begin(), losses.end()), losses.end());
  std::vector<Losses> front;
  for (Losses& one : losses) {
    const auto beats = [&](const Losses& other) { return dominates(other, one); };
    if (std::ranges::none_of(front, beats)) front.push_back(std::move(one));
  }
  return front;
}

/// Of a front in lexical order: rising first losses, falling second ones.
double sweep(std::span<const Losses> front, std::span<const double> reference) {
  double volume = 0, above = reference[1];
  for (const Losses& one : front) {
    volume += (reference[0] - one[0]) * (above - one[1]);
    above = one[1];
  }
  return volume;
}

/// What each adds to those behind it, which count no further than where it is itself.
double exclusive_volumes(const std::vector<Losses>& front, std::span<const double> reference) {
  if (reference.size() == 2) return sweep(front, reference);
  double volume = 0;
  for (size_t i = 0; i < front.size(); ++i) {
    std::vector<Losses> limited;
    for (size_t j = i + 1; j < front.size(); ++j) {
      Losses& worse = limited.emplace_back(front[j]);
      for (size_t d = 0; d < worse.size(); ++d) worse[d] = std::max(worse[d], front[i][d]);
    }
    volume += box(front[i], reference);
    if (!limited.empty())
      volume -= exclusive_volumes(front_of_losses(std::move(limited)), reference);
  }
  return volume;
}

/// Of different losses in lexical order, two objectives: the corner of what each would add moves as
/// its neighbours are chosen.
std::vector<size_t> subset_of_two(const std::vector<Losses>& losses,
                                  size_t count,
                                  std::span<const double> reference) {
  struct Corner {
    size_t place;
    double x, y;
  };
  std::vector<Corner> corners;
  for (size_t i = 0; i < losses.size(); ++i) corners.push_back({i, reference[0], reference[1]});
  std::vector<size_t> chosen;
  while (chosen.size() < count) {
    size_t best = 0;
    double most = -kUnbounded;
    for (size_t i = 0; i < corners.size(); ++i) {
      const Losses& one = losses[corners[i].place];
      const double adds = (corners[i].x - one[0]) * (corners[i].y - one[1]);
      if (adds > most) best = i, most = adds;
    }
    const Losses one = losses[corners[best].place];
    chosen.push_back(corners[best].place);
    corners.erase(corners.begin() + static_cast<std::ptrdiff_t>(best));
    for (size_t i = 0; i < best; ++i) corners[i].x = std::min(corners[i].x, one[0]);
    for (size_t i = best; i < corners.size(); ++i) corners[i].y = std::min(corners[i].y, one[1]);
  }
  return chosen;
}

/// What it would add to those chosen.
double contribution(const Losses& one,
                    const std::vector<Losses>& chosen,
                    std::span<const double> reference) {
  std::vector<Losses> limited = chosen;
  for (Losses& other : limited) {
    for (size_t d = 0; d < other.size(); ++d) other[d] = std::max(other[d], one[d]);
  }
  return box(one, reference) - exclusive_volumes(front_of_losses(std::move(limited)), reference);
}

/// More objectives. What one adds only falls as others are chosen: who was behind stays behind.
std::vector<size_t> subset_of_more(const std::vector<Losses>& losses,
                                   size_t count,
                                   std::span<const double> reference) {
  std::vector<double> adds;
  for (const Losses& one : losses) adds.push_back(box(one, reference));
  std::vector<size_t> left(losses.size()), chosen;
  std::iota(left.begin(), left.end(), size_t{0});
  std::vector<Losses> chosen_losses;
  for (;;) {
    const auto best = std::ranges::max_element(left, {}, [&](size_t i) { return adds[i]; });
    chosen.push_back(*best);
    chosen_losses.push_back(losses[*best]);
    left.erase(best);
    if (chosen.size() == count) return chosen;
    std::vector<size_t> order = left;
    std::ranges::stable_sort(order, std::greater<>(), [&](size_t i) { return adds[i]; });
    double most = 0;
    for (const size_t i : order) {
      if (adds[i] < most) break;
      adds[i] = contribution(losses[i], chosen_losses, reference);
      most = std::max(most, adds[i]);
    }
  }
}

bool are_finite(std::span<const double> numbers) {
  return std::ranges::all_of(numbers, [](double x) { return std::isfinite(x); });
}

}  // namespace

double hypervolume(std::span<const Losses> losses, std::span<const double> reference) {
  if (!are_finite(reference)) return kUnbounded;
  std::vector<Losses> within;
  for (const Losses& one : losses) {
    bool is_within = true;
    for (size_t i = 0; i < one.size(); ++i) is_within &= one[i] < reference[i];
    if (!is_within) continue;
    if (!are_finite(one)) return kUnbounded;
    within.push_back(one);
  }
  return within.empty() ? 0 : exclusive_volumes(front_of_losses(std::move(within)), reference);
}

std::vector<size_t> hypervolume_subset(std::span<const Losses> losses,
                                       size_t count,
                                       std::span<const double> reference) {
  std::vector<size_t> places(losses.size());
  std::iota(places.begin(), places.end(), size_t{0});
  if (count >= losses.size()) return places;
  std::ranges::stable_sort(places, [&](size_t a, size_t b) { return losses[a] < losses[b]; });
  std::vector<size_t> firsts;  // of each kind, in lexical order
  for (const size_t place : places) {
    if (firsts.empty() || losses[firsts.back()] != losses[place]) firsts.push_back(place);
  }
  if (firsts.size() < count) {
    std::vector<bool> is_first(losses.size(), false);
    for (const size_t place : firsts) is_first[place] = true;
    for (size_t i = 0; i < losses.size() && firsts.size() < count; ++i) {
      if (!is_first[i]) firsts.push_back(i);
    }
    return firsts;
  }
  std::vector<Losses> kinds;
  for (const size_t place : firsts) kinds.push_back(losses[place]);
  const bool all_finite =
      std::ranges::all_of(kinds, [](const Losses& one) { return are_finite(one); });
  if (firsts.size() == count || !are_finite(reference) || !all_finite) {
    firsts.resize(count);
    return firsts;
  }
  std::vector<size_t> out;
  for (const size_t kind : reference.size() == 2 ? subset_of_two(kinds, count, reference)
                                                 : subset_of_more(kinds, count, reference))
    out.push_back(firsts[kind]);
  return out;
}

Losses reference_beyond(std::span<const Losses> losses) {
  constexpr double kTiny = 1e-12;  // Optuna's EPS
  Losses reference = losses[0];
  for (const Losses& one : losses) {
    for (size_t i = 0; i < one.size(); ++i) reference[i] = std::max(reference[i], one[i]);
  }
  for (double& worst : reference) {
    worst = std::max(1.1 * worst, 0.9 * worst);
    if (worst == 0) worst = kTiny;
  }
  return reference;
}

std::vector<size_t> best_by_fronts(std::span<const Losses> losses, size_t count) {
  std::vector<size_t> chosen;
  if (count == 0 || losses.empty()) return chosen;
  const std::vector<int64_t> ranks = front_ranks(losses, std::min(count, losses.size()));
  for (int64_t rank = 0; chosen.size() < std::min(count, losses.size()); ++rank) {
    std::vector<size_t> front;
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (ranks[i] == rank) front.push_back(i);
    }
    std::vector<Losses> of_front;
    for (const size_t place : front) of_front.push_back(losses[place]);
    const size_t wanted = std::min(count - chosen.size(), front.size());
    for (const size_t i : hypervolume_subset(of_front, wanted, reference_beyond(of_front)))
      chosen.push_back(front[i]);
  }
  std::ranges::sort(chosen);
  return chosen;
}

}  // namespace muster::tune
