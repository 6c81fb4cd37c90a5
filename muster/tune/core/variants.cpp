#include "muster/tune/core/variants.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/params.h"
#include "muster/base/text.h"
#include "muster/tune/search/searcher.h"

namespace muster::tune {
namespace {

/// The dimensions of the grid that `point` leaves open.
std::vector<size_t> open_dimensions(const Space& space, const Point& point, bool enumerates) {
  std::vector<size_t> open;
  for (size_t d = 0; d < point.size(); ++d) {
    if (std::isnan(point[d]) && (enumerates || space.dimensions()[d].grid)) open.push_back(d);
  }
  return open;
}

Point empty_point(const Space& space) {
  return Point(space.dimensions().size(), std::numeric_limits<double>::quiet_NaN());
}

/// A parameter that no grid can have is named by the place that it has in a study file, or else by
/// that of the searcher which wants a grid.
Grid grid_of(const StudySpec& spec, const Point& point, bool enumerates) {
  const std::vector<size_t> open = open_dimensions(spec.space, point, enumerates);
  try {
    return Grid(spec.space, open);
  } catch (const Error& error) {
    for (const size_t d : open) {
      const Parameter& of = spec.space.parameters()[spec.space.dimensions()[d].parameter];
      if (error.text().refused == concat("a grid over parameter \"", of.name, '"') &&
          spec.places.contains(place_key(of.name)))
        throw at_place(spec, place_key(of.name), error);
    }
    throw at_place(spec, "searcher", error);
  }
}

void check_constant(const StudySpec& spec, std::string_view searcher) {
  if (!spec.constant_grid_search) return;
  if (!spec.own_searcher && searchers().at(searcher).shares_draws) return;
  std::vector<std::string> names;
  for (const SearcherEntry* entry : searchers())
    if (entry->shares_draws) names.emplace_back(entry->name);
  throw usage_error(
      {.refused = "constant_grid_search",
       .rule = concat("it goes with searcher ", join(names, " or "), ", whose draws it shares out"),
       .value = concat("searcher ", searcher)});
}

void check_trials(int64_t samples, int64_t grid, int64_t before) {
  if (samples <= 0 || grid <= (std::numeric_limits<int64_t>::max() - before) / samples) return;
  throw usage_error({.refused = concat("num_samples ", samples, " of a grid of ", grid),
                     .rule = "the study's trials can be counted"});
}

}  // namespace

Variants::Variants(const StudySpec& spec)
    : space_(spec.space), seed_(spec.seed), constant_(spec.constant_grid_search) {
  const std::string searcher =
      spec.own_searcher ? spec.searcher
                        : located(spec, "searcher", [&] { return parse_spec(spec.searcher).name; });
  const bool enumerates = !spec.own_searcher && located(spec, "searcher", [&] {
    return searchers().at(searcher).enumerates;
  });
  located(spec, "constant_grid_search", [&] { check_constant(spec, searcher); });
  grid_ = grid_of(spec, empty_point(space_), enumerates);
  point_firsts_ = {0};
  for (const auto& values : spec.points_to_evaluate) {
    points_.push_back(space_.point_of(values));
    point_grids_.push_back(grid_of(spec, points_.back(), enumerates));
    point_firsts_.push_back(point_firsts_.back() + point_grids_.back().size());
  }
  // A grid that the searcher enumerates ends; one of grid_search goes round and round.
  const int64_t samples = spec.num_samples < 0 && enumerates ? 1 : spec.num_samples;
  const auto points = static_cast<int64_t>(points_.size());
  samples_ = samples < 0 ? -1 : std::max<int64_t>(0, samples - points);
  located(spec, "num_samples", [&] { check_trials(samples_, grid_.size(), point_firsts_.back()); });
}

int64_t Variants::trials() const {
  return samples_ < 0 ? -1 : point_firsts_.back() + samples_ * grid_.size();
}

Variants::Group Variants::group_of(int64_t number) const {
  const int64_t behind = number - point_firsts_.back();
  if (behind >= 0) return {&grid_, number - behind % grid_.size(), points_.size()};
  const auto next = std::ranges::upper_bound(point_firsts_, number);
  const auto point = static_cast<size_t>(next - point_firsts_.begin()) - 1;
  return {&point_grids_[point], point_firsts_[point], point};
}

Point Variants::partial(int64_t number) const {
  const Group group = group_of(number);
  Point point = group.point < points_.size() ? points_[group.point] : empty_point(space_);
  group.grid->fill(point, number - group.first);
  return constant_ ? draw_open(space_, point, seed_, group.first) : point;
}

}  // namespace muster::tune
