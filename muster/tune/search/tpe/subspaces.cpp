#include "muster/tune/search/tpe/subspaces.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace muster::tune {
namespace {

std::vector<size_t> common(const std::vector<size_t>& a, const std::vector<size_t>& b) {
  std::vector<size_t> out;
  std::ranges::set_intersection(a, b, std::back_inserter(out));
  return out;
}

std::vector<size_t> without(const std::vector<size_t>& a, const std::vector<size_t>& b) {
  std::vector<size_t> out;
  std::ranges::set_difference(a, b, std::back_inserter(out));
  return out;
}

}  // namespace

Subspaces::Subspaces(const std::vector<bool>& is_open, Together together) : together_(together) {
  for (size_t d = 0; d < is_open.size(); ++d) {
    if (is_open[d]) open_.push_back(d);
  }
  all_ = partition();
}

bool Subspaces::add(const Point& point) {
  if (together_ == Together::kApart) return false;
  Dimensions seen;
  for (const size_t d : open_) {
    if (!std::isnan(point[d])) seen.push_back(d);
  }
  if (together_ == Together::kGroups) {
    add_to_groups(std::move(seen));
  } else if (!has_any_) {
    groups_ = {std::move(seen)};
  } else {
    groups_[0] = common(groups_[0], seen);
  }
  has_any_ = true;
  auto now = partition();
  const bool changed = now != all_;
  all_ = std::move(now);
  return changed;
}

/// Cuts each group into what is in `seen` and what is not.
void Subspaces::add_to_groups(Dimensions seen) {
  std::vector<Dimensions> next;
  for (const Dimensions& group : groups_) {
    next.push_back(common(group, seen));
    next.push_back(without(group, seen));
    seen = without(seen, group);
  }
  next.push_back(std::move(seen));
  std::erase_if(next, [](const Dimensions& group) { return group.empty(); });
  groups_ = std::move(next);
}

std::vector<Subspaces::Dimensions> Subspaces::partition() const {
  std::vector<Dimensions> out;
  Dimensions rest = open_;
  for (const Dimensions& group : groups_) {
    if (!group.empty()) out.push_back(group);
    rest = without(rest, group);
  }
  for (const size_t d : rest) out.push_back({d});
  return out;
}

}  // namespace muster::tune
